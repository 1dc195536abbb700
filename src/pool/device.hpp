// Device: one device as the pool uses it: its memory, as gpu::Memory has it, and order: when the
// work that was queued in a stream is done, by fences (fence.hpp).
//
// Order by stamps: a stamp is a number that grows with every use and costs no driver call. An event
// answers for all stamps before it; mark() makes one, and so does a query whether a stamp is done.
// Streams are named by their handles, and by aliases once they are gone. One thread at a time;
// allocates at a stream's first use.
//
// Virtual is what a replay answers by the recording instead (replay/peers/vram.hpp).
#pragma once

#include "gpu/memory.hpp"
#include "pool/fence.hpp"
#include "pool/stamp.hpp"

#include <cstdint>
#include <vector>

namespace vram::pool {

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

}  // namespace vram::pool
