// Device: one device as the pool uses it: its memory, as gpu::Memory has it, and order: when the
// work that was queued in a stream is done, by fences.
//
// Order by stamps: a stamp is a number that grows with every use and costs no driver call. An event
// answers for all stamps before it; mark() makes one, and so does a query whether a stamp is done.
// Streams are named by their handles, and by aliases once they are gone. One thread at a time;
// allocates at a stream's first use.
//
// Virtual is what a replay answers by the recording instead (replay/peers/vram.hpp).
#pragma once

#include "gpu/memory.hpp"
#include "pool/stamp.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace vram::pool {

// Fence: how far one stream's work is done. Events follow some of its stamps; the oldest are asked
// first, and one that is done answers for all before it. A few events at most: when all are queued,
// a stamp that none of them covers waits for one to come back. A stream that is closed is not
// passed to the driver any more: what its events say is all that is known. Used by Device; one
// thread at a time; allocates nothing.
class Fence {
 public:
  explicit Fence(StreamHandle stream) : stream_(stream) {}

  [[nodiscard]] StreamHandle stream() const { return stream_; }
  [[nodiscard]] Stamp done() const { return done_; }

  [[nodiscard]] bool is_closed() const { return is_closed_; }
  [[nodiscard]] bool is_all_done() const { return done_ >= last_; }

  // An event behind all work up to the stamp, unless one stands there.
  void mark(gpu::Memory& memory, uint32_t ordinal, Stamp stamp);
  // While no event may be recorded: one is due as soon as it may.
  void mark_later() { is_mark_due_ = true; }
  void mark_if_due(gpu::Memory& memory, uint32_t ordinal, Stamp stamp) {
    if (std::exchange(is_mark_due_, false)) mark(memory, ordinal, stamp);
  }
  // The stream goes: its last work has the stamp `last`, and goes by that alias.
  void close(gpu::Memory& memory, uint32_t ordinal, Stamp last, StreamHandle alias);
  // The earliest event that was recorded after the stamp; 0: there is none.
  [[nodiscard]] gpu::EventHandle next_event_after(Stamp stamp);
  // By the events that stand there, or by a new one.
  [[nodiscard]] bool is_done(gpu::Memory& memory, Stamp stamp);
  [[nodiscard]] bool is_done(gpu::Memory& memory, uint32_t ordinal, Stamp stamp, Stamp last_stamp);
  // The host waits for its work up to the stamp, and for no more if an event directly follows
  // that; or as far as its events reach. kNotReady: not far enough. With the ordinal, an
  // event is recorded behind it all, if that can be.
  [[nodiscard]] Status wait(gpu::Memory& memory, Stamp stamp);
  [[nodiscard]] Status wait(gpu::Memory& memory, uint32_t ordinal, Stamp stamp);
  // All of its work up to the stamp is known to be done.
  void retire(gpu::Memory& memory, Stamp stamp);

 private:
  static constexpr uint32_t kMax = 16;
  struct Mark {
    Stamp stamp = 0;
    gpu::EventHandle event = 0;
  };
  [[nodiscard]] Mark& at(uint32_t index) { return marks_[(first_ + index) % kMax]; }
  void poll(gpu::Memory& memory);
  void drop_first(gpu::Memory& memory);
  void drop(gpu::Memory& memory, uint32_t index);

  StreamHandle stream_;
  Stamp done_ = 0;
  Stamp last_ = std::numeric_limits<Stamp>::max();  // no work comes after it
  bool is_closed_ = false;
  bool is_mark_due_ = false;
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  std::array<Mark, kMax> marks_{};
};

class Device {
 public:
  // memory must outlive it.
  Device(gpu::Memory& memory, uint32_t ordinal) : memory_(memory), ordinal_(ordinal) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device();

  // Its calls take the ordinal.
  [[nodiscard]] gpu::Memory& memory() { return memory_; }
  [[nodiscard]] uint32_t ordinal() const { return ordinal_; }

  // Stands for all work queued in the stream so far. Called at every free: no driver call.
  [[nodiscard]] virtual Stamp stamp(StreamHandle) { return ++last_stamp_; }
  // What is queued in the stream so far shall be distinguished from what comes: worth an event.
  // Where recording is not allowed, the event is recorded once it is. One that can't be had is done
  // without.
  virtual void mark(StreamHandle stream);
  // Whether that work is done. May ask the driver; false where it can't be known.
  [[nodiscard]] virtual bool is_done(StreamHandle stream, Stamp stamp);
  // Later work of `waiting` starts after the stamped work; the host does not wait. If an event
  // directly follows that work, nothing that was queued later is waited for. kNotReady: a stream
  // that is gone, and no event follows its work; or recording was ever not allowed. Then
  // graphs may be launched, and NVIDIA's driver (580.159) loses a wait that one thread queues while
  // another one launches a graph in the same stream (docs/pool.md).
  [[nodiscard]] Status stream_wait(StreamHandle waiting, StreamHandle stream, Stamp stamp);
  // The host waits until the stamped work is done, and for nothing of other streams; nor for what
  // was queued later, if an event directly follows that work. If one follows it, no
  // capture of a graph is disturbed. kNotReady: some of it can't be waited for, as while the stream
  // is captured.
  [[nodiscard]] virtual Status wait(StreamHandle stream, Stamp stamp);
  // The host waits for all of the device: breaks whatever graph is being captured.
  [[nodiscard]] virtual Status synchronize();
  // Where it is not allowed, nothing is recorded but by close(), and only events that stand already
  // say what is done. While a stream is captured, only the thread that captures it may name it to
  // the driver; which thread calls here, and which streams are captured, is not known.
  void allow_recording(bool is_allowed);
  // The stream is about to go, with all queued that ever will be. The driver is not passed its
  // handle again, which may name a new stream. Its stamps are asked for by the alias that is
  // returned; what its events don't answer, wait() does, which then waits for the device.
  [[nodiscard]] StreamHandle close(StreamHandle stream);

 private:
  // No pointer, and so no stream, has such a handle.
  static constexpr StreamHandle kFirstAlias = StreamHandle{1} << 63;

  // nullptr: of a stream that is gone, and whose work is done.
  [[nodiscard]] Fence* fence_of(StreamHandle stream);
  void drop(Fence* fence);

  gpu::Memory& memory_;
  uint32_t ordinal_;
  Stamp last_stamp_ = 0;
  StreamHandle last_alias_ = kFirstAlias;
  bool may_record_ = true;
  bool knows_graphs_ = false;  // there are some, or will be
  std::vector<Fence> fences_;
};

// Progress: how far one stream's work is done, for callers that ask about many stamps at once: of
// two stamps, the later is done no sooner, so most answers follow from earlier ones and cost no
// call to the driver. A value for one survey; it does not notice what is done meanwhile.
class Progress {
 public:
  Progress(Device& device, StreamHandle stream) : device_(device), stream_(stream) {}

  [[nodiscard]] bool is_done(Stamp stamp) {
    if (stamp <= done_) return true;
    if (stamp >= pending_) return false;
    const bool is_it = device_.is_done(stream_, stamp);
    if (is_it) done_ = stamp;
    if (!is_it) pending_ = stamp;
    return is_it;
  }

 private:
  Device& device_;
  StreamHandle stream_;
  Stamp done_ = 0;
  Stamp pending_ = std::numeric_limits<Stamp>::max();
};

}  // namespace vram::pool
