// Fence: how far one stream's work is done. Events stand behind some of its stamps (device.hpp);
// the oldest are asked first, and one that is done answers for all before it. A few events at most:
// when all are queued, a stamp that none of them covers waits for one to come back. A stream that
// is closed is not passed to the driver any more: what its events say is all that is known. Used by
// DeviceOn; one thread at a time; allocates nothing.
#pragma once

#include "pool/device.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

namespace vram::pool {

template <gpu::Memory M>
class Fence {
 public:
  explicit Fence(StreamHandle stream) : stream_(stream) {}

  [[nodiscard]] StreamHandle stream() const { return stream_; }
  [[nodiscard]] Stamp done() const { return done_; }

  [[nodiscard]] bool is_closed() const { return is_closed_; }
  [[nodiscard]] bool is_all_done() const { return done_ >= last_; }

  // An event behind all work up to the stamp, unless one stands there.
  void mark(M& memory, uint32_t ordinal, Stamp stamp) {
    if (is_closed_ || (count_ > 0 && at(count_ - 1).stamp >= stamp)) return;
    if (count_ == kMax) poll(memory);
    if (count_ == kMax) return;
    gpu::EventHandle event = 0;
    if (memory.record(ordinal, stream_, &event) != Status::kOk) return;
    at(count_++) = {stamp, event};
  }
  // While no event may be recorded: one is due as soon as it may.
  void mark_later() { is_mark_due_ = true; }
  void mark_if_due(M& memory, uint32_t ordinal, Stamp stamp) {
    if (std::exchange(is_mark_due_, false)) mark(memory, ordinal, stamp);
  }
  // The stream goes: its last work has the stamp `last`, and goes by that alias.
  void close(M& memory, uint32_t ordinal, Stamp last, StreamHandle alias) {
    if (done_ < last && count_ == kMax) drop(memory, count_ - 1);
    if (done_ < last) mark(memory, ordinal, last);
    stream_ = alias;
    last_ = last;
    is_closed_ = true;
  }
  // The earliest event that stands behind the stamp; 0: none does.
  [[nodiscard]] gpu::EventHandle next_event_after(Stamp stamp) {
    stamp = std::min(stamp, last_);
    for (uint32_t i = 0; i < count_; ++i) {
      if (at(i).stamp >= stamp) return at(i).event;
    }
    return 0;
  }
  // By the events that stand there, or by a new one.
  [[nodiscard]] bool is_done(M& memory, Stamp stamp) {
    poll(memory);
    return done_ >= std::min(stamp, last_);
  }
  [[nodiscard]] bool is_done(M& memory, uint32_t ordinal, Stamp stamp, Stamp last_stamp) {
    stamp = std::min(stamp, last_);
    if (is_done(memory, stamp)) return true;
    if (count_ > 0 && at(count_ - 1).stamp >= stamp) return false;
    mark(memory, ordinal, last_stamp);
    return is_done(memory, stamp);
  }
  // The host waits for its work up to the stamp, and for no more where an event stands right behind
  // that; or as far as its events stand behind it. kNotReady: not far enough. With the ordinal, an
  // event is recorded behind it all, if that can be.
  [[nodiscard]] Status wait(M& memory, Stamp stamp) {
    stamp = std::min(stamp, last_);
    if (done_ >= stamp) return Status::kOk;
    if (count_ == 0) return Status::kNotReady;
    uint32_t index = 0;
    while (index + 1 < count_ && at(index).stamp < stamp) ++index;
    const Status status = memory.wait(at(index).event);
    if (status == Status::kInvalidValue) drop(memory, index);
    if (status != Status::kOk) return status;
    done_ = std::max(done_, at(index).stamp);
    for (uint32_t i = 0; i <= index; ++i) drop_first(memory);
    return done_ >= stamp ? Status::kOk : Status::kNotReady;
  }
  [[nodiscard]] Status wait(M& memory, uint32_t ordinal, Stamp stamp) {
    mark(memory, ordinal, stamp);
    const Status status = wait(memory, stamp);
    if (status != Status::kNotReady) return status;
    mark(memory, ordinal, stamp);  // there was no room for it before
    return wait(memory, stamp);
  }
  // All of its work up to the stamp is known to be done.
  void retire(M& memory, Stamp stamp) {
    done_ = std::max(done_, stamp);
    while (count_ > 0) drop_first(memory);
  }

 private:
  static constexpr uint32_t kMax = 16;
  struct Mark {
    Stamp stamp = 0;
    gpu::EventHandle event = 0;
  };
  [[nodiscard]] Mark& at(uint32_t index) { return marks_[(first_ + index) % kMax]; }
  void poll(M& memory) {
    while (count_ > 0) {
      const Status status = memory.query(at(0).event);
      if (status != Status::kOk && status != Status::kInvalidValue) return;
      if (status == Status::kOk) done_ = std::max(done_, at(0).stamp);
      drop_first(memory);
    }
  }
  void drop_first(M& memory) {
    (void)memory.destroy(at(0).event);
    first_ = (first_ + 1) % kMax;
    --count_;
  }

  void drop(M& memory, uint32_t index) {
    (void)memory.destroy(at(index).event);
    for (--count_; index < count_; ++index) at(index) = at(index + 1);
  }

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
