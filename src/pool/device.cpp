#include "pool/device.hpp"

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

Device::~Device() {
  for (Fence& fence : fences_) fence.retire(memory_, last_stamp_);
}

void Device::allow_recording(bool is_allowed) {
  may_record_ = is_allowed;
  knows_graphs_ = knows_graphs_ || !is_allowed;
  if (!is_allowed) return;
  for (Fence& fence : fences_) fence.mark_if_due(memory_, ordinal_, last_stamp_);
}

void Device::mark(StreamHandle stream) {
  Fence* fence = fence_of(stream);
  if (fence == nullptr) return;
  if (!may_record_) return fence->mark_later();
  fence->mark(memory_, ordinal_, last_stamp_);
}

bool Device::is_done(StreamHandle stream, Stamp stamp) {
  Fence* fence = fence_of(stream);
  if (fence == nullptr || fence->done() >= stamp) return true;
  const bool is_it = may_record_ ? fence->is_done(memory_, ordinal_, stamp, last_stamp_)
                                 : fence->is_done(memory_, stamp);
  if (is_it && fence->is_closed() && fence->is_all_done()) drop(fence);
  return is_it;
}

Status Device::stream_wait(StreamHandle waiting, StreamHandle stream, Stamp stamp) {
  Fence* fence = fence_of(stream);
  if (fence == nullptr || fence->done() >= stamp) return Status::kOk;
  if (knows_graphs_) return Status::kNotReady;
  if (const gpu::EventHandle behind = fence->next_event_after(stamp); behind != 0) {
    return memory_.stream_wait(ordinal_, waiting, behind);
  }
  if (fence->is_closed()) return Status::kNotReady;
  gpu::EventHandle event = 0;
  if (const Status s = memory_.record(ordinal_, stream, &event); s != Status::kOk) return s;
  const Status waited = memory_.stream_wait(ordinal_, waiting, event);
  (void)memory_.destroy(event);
  return waited;
}

Status Device::wait(StreamHandle stream, Stamp stamp) {
  Fence* fence = fence_of(stream);
  if (fence == nullptr) return Status::kOk;
  stamp = std::min(stamp, last_stamp_);
  const Status status =
      may_record_ ? fence->wait(memory_, ordinal_, stamp) : fence->wait(memory_, stamp);
  const bool has_no_event = status == Status::kNotReady && fence->is_closed() && may_record_;
  return has_no_event ? synchronize() : status;
}

Status Device::synchronize() {
  const Stamp until = last_stamp_;
  const Status status = memory_.synchronize(ordinal_);
  if (status != Status::kOk) return status;
  for (Fence& fence : fences_) fence.retire(memory_, until);
  return status;
}

StreamHandle Device::close(StreamHandle stream) {
  Fence* fence = fence_of(stream);
  if (fence == nullptr || fence->is_closed()) return stream;
  fence->close(memory_, ordinal_, ++last_stamp_, ++last_alias_);
  return last_alias_;
}

Fence* Device::fence_of(StreamHandle stream) {
  for (Fence& fence : fences_) {
    if (fence.stream() == stream) return &fence;
  }
  return stream >= kFirstAlias ? nullptr : &fences_.emplace_back(stream);
}

void Device::drop(Fence* fence) {
  fence->retire(memory_, last_stamp_);
  *fence = fences_.back();
  fences_.pop_back();
}

}  // namespace vram::pool
