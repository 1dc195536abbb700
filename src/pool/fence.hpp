// Fence: how far one stream's work is done. Events stand behind some of its stamps (device.hpp);
// the oldest are asked first, and one that is done answers for all before it. A few events at most:
// when all are queued, a stamp that none of them covers waits for one to come back. Used by
// DeviceOn; one thread at a time; allocates nothing.
#pragma once

#include "pool/device.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace vram::pool {

template <gpu::Memory M>
class Fence {
 public:
  explicit Fence(StreamHandle stream) : stream_(stream) {}

  [[nodiscard]] StreamHandle stream() const { return stream_; }
  [[nodiscard]] Stamp done() const { return done_; }

  // An event behind all work up to the stamp, unless one stands there.
  void mark(M& memory, uint32_t ordinal, Stamp stamp) {
    if (count_ == kMost || (count_ > 0 && at(count_ - 1).stamp >= stamp)) return;
    gpu::EventHandle event = 0;
    if (memory.record(ordinal, stream_, &event) != Status::kOk) return;
    at(count_++) = {stamp, event};
  }
  [[nodiscard]] bool is_done(M& memory, uint32_t ordinal, Stamp stamp, Stamp last_stamp) {
    poll(memory);
    if (done_ >= stamp) return true;
    if (count_ > 0 && at(count_ - 1).stamp >= stamp) return false;
    mark(memory, ordinal, last_stamp);
    poll(memory);
    return done_ >= stamp;
  }
  // All of its work up to the stamp is known to be done.
  void retire(M& memory, Stamp stamp) {
    done_ = std::max(done_, stamp);
    while (count_ > 0) drop_first(memory);
  }

 private:
  static constexpr uint32_t kMost = 8;
  struct Mark {
    Stamp stamp = 0;
    gpu::EventHandle event = 0;
  };
  [[nodiscard]] Mark& at(uint32_t index) { return marks_[(first_ + index) % kMost]; }
  void poll(M& memory) {
    while (count_ > 0 && memory.query(at(0).event) == Status::kOk) {
      done_ = std::max(done_, at(0).stamp);
      drop_first(memory);
    }
  }
  void drop_first(M& memory) {
    (void)memory.destroy(at(0).event);
    first_ = (first_ + 1) % kMost;
    --count_;
  }

  StreamHandle stream_;
  Stamp done_ = 0;
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  std::array<Mark, kMost> marks_{};
};

}  // namespace vram::pool
