#include "pool/fence.hpp"

#include <algorithm>

namespace vram::pool {

void Fence::mark(gpu::Memory& memory, uint32_t ordinal, Stamp stamp) {
  if (is_closed_ || (count_ > 0 && at(count_ - 1).stamp >= stamp)) return;
  if (count_ == kMax) poll(memory);
  if (count_ == kMax) return;
  gpu::EventHandle event = 0;
  if (memory.record(ordinal, stream_, &event) != Status::kOk) return;
  at(count_++) = {stamp, event};
}

void Fence::close(gpu::Memory& memory, uint32_t ordinal, Stamp last, StreamHandle alias) {
  if (done_ < last && count_ == kMax) drop(memory, count_ - 1);
  if (done_ < last) mark(memory, ordinal, last);
  stream_ = alias;
  last_ = last;
  is_closed_ = true;
}

gpu::EventHandle Fence::next_event_after(Stamp stamp) {
  stamp = std::min(stamp, last_);
  for (uint32_t i = 0; i < count_; ++i) {
    if (at(i).stamp >= stamp) return at(i).event;
  }
  return 0;
}

bool Fence::is_done(gpu::Memory& memory, Stamp stamp) {
  poll(memory);
  return done_ >= std::min(stamp, last_);
}

bool Fence::is_done(gpu::Memory& memory, uint32_t ordinal, Stamp stamp, Stamp last_stamp) {
  stamp = std::min(stamp, last_);
  if (is_done(memory, stamp)) return true;
  if (count_ > 0 && at(count_ - 1).stamp >= stamp) return false;
  mark(memory, ordinal, last_stamp);
  return is_done(memory, stamp);
}

Status Fence::wait(gpu::Memory& memory, Stamp stamp) {
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

Status Fence::wait(gpu::Memory& memory, uint32_t ordinal, Stamp stamp) {
  mark(memory, ordinal, stamp);
  const Status status = wait(memory, stamp);
  if (status != Status::kNotReady) return status;
  mark(memory, ordinal, stamp);  // there was no room for it before
  return wait(memory, stamp);
}

void Fence::retire(gpu::Memory& memory, Stamp stamp) {
  done_ = std::max(done_, stamp);
  while (count_ > 0) drop_first(memory);
}

void Fence::poll(gpu::Memory& memory) {
  while (count_ > 0) {
    const Status status = memory.query(at(0).event);
    if (status != Status::kOk && status != Status::kInvalidValue) return;
    if (status == Status::kOk) done_ = std::max(done_, at(0).stamp);
    drop_first(memory);
  }
}

void Fence::drop_first(gpu::Memory& memory) {
  (void)memory.destroy(at(0).event);
  first_ = (first_ + 1) % kMax;
  --count_;
}

void Fence::drop(gpu::Memory& memory, uint32_t index) {
  (void)memory.destroy(at(index).event);
  for (--count_; index < count_; ++index) at(index) = at(index + 1);
}

}  // namespace vram::pool
