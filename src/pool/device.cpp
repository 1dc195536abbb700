#include "pool/device.hpp"

#include <algorithm>

namespace vram::pool {

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
