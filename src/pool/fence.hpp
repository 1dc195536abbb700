// Fence: how far one stream's work is done. Events follow some of its stamps (device.hpp);
// the oldest are asked first, and one that is done answers for all before it. A few events at most:
// when all are queued, a stamp that none of them covers waits for one to come back. A stream that
// is closed is not passed to the driver any more: what its events say is all that is known. Used by
// Device; one thread at a time; allocates nothing.
#pragma once

#include "gpu/memory.hpp"
#include "pool/stamp.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

namespace vram::pool {

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

}  // namespace vram::pool
