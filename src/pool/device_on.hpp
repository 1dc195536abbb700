// DeviceOn: a pool's Device made of any gpu::Memory: memory as it is, order by fences (fence.hpp).
// One thread at a time; allocates at a stream's first use.
//
// Base: Device itself, or what a user of more than Device derived from it.
#pragma once

#include "pool/device.hpp"
#include "pool/fence.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <vector>

namespace vram::pool {

template <gpu::Memory M, std::derived_from<Device> Base = Device>
class DeviceOn : public Base {
 public:
  // memory must outlive it.
  DeviceOn(M& memory, uint32_t ordinal) : memory_(memory), ordinal_(ordinal) {}
  ~DeviceOn() override {
    for (Fence<M>& fence : fences_) fence.retire(memory_, last_stamp_);
  }

  [[nodiscard]] uint64_t granularity_bytes() const override { return memory_.granularity_bytes(); }
  [[nodiscard]] Status memory_info(gpu::MemoryInfo* info) override {
    return memory_.memory_info(ordinal_, info);
  }
  [[nodiscard]] Status reserve(uint64_t bytes, Address* address) override {
    return memory_.reserve(bytes, address);
  }
  [[nodiscard]] Status unreserve(Address address, uint64_t bytes) override {
    return memory_.unreserve(address, bytes);
  }
  [[nodiscard]] Status create(uint64_t bytes, gpu::Handle* handle) override {
    return memory_.create(ordinal_, bytes, handle);
  }
  [[nodiscard]] Status release(gpu::Handle handle) override { return memory_.release(handle); }
  [[nodiscard]] Status map(Address address, uint64_t bytes, gpu::Handle handle) override {
    return memory_.map(address, bytes, handle);
  }
  [[nodiscard]] Status set_access(Address address, uint64_t bytes) override {
    return memory_.set_access(address, bytes, ordinal_);
  }
  [[nodiscard]] Status unmap(Address address, uint64_t bytes) override {
    return memory_.unmap(address, bytes);
  }
  [[nodiscard]] Status alloc_segment(uint64_t bytes, Address* address) override {
    return memory_.alloc_segment(ordinal_, bytes, address);
  }
  [[nodiscard]] Status free_segment(Address address) override {
    return memory_.free_segment(ordinal_, address);
  }

  [[nodiscard]] Stamp stamp(StreamHandle) override { return ++last_stamp_; }
  void allow_recording(bool is_allowed) override {
    may_record_ = is_allowed;
    knows_graphs_ = knows_graphs_ || !is_allowed;
    if (!is_allowed) return;
    for (Fence<M>& fence : fences_) fence.mark_if_due(memory_, ordinal_, last_stamp_);
  }
  void mark(StreamHandle stream) override {
    Fence<M>* fence = fence_of(stream);
    if (fence == nullptr) return;
    if (!may_record_) return fence->mark_later();
    fence->mark(memory_, ordinal_, last_stamp_);
  }
  [[nodiscard]] bool is_done(StreamHandle stream, Stamp stamp) override {
    Fence<M>* fence = fence_of(stream);
    if (fence == nullptr || fence->done() >= stamp) return true;
    const bool is_it = may_record_ ? fence->is_done(memory_, ordinal_, stamp, last_stamp_)
                                   : fence->is_done(memory_, stamp);
    if (is_it && fence->is_closed() && fence->is_all_done()) drop(fence);
    return is_it;
  }
  [[nodiscard]] Status stream_wait(StreamHandle waiting, StreamHandle stream,
                                   Stamp stamp) override {
    Fence<M>* fence = fence_of(stream);
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
  [[nodiscard]] Status wait(StreamHandle stream, Stamp stamp) override {
    Fence<M>* fence = fence_of(stream);
    if (fence == nullptr) return Status::kOk;
    stamp = std::min(stamp, last_stamp_);
    const Status status =
        may_record_ ? fence->wait(memory_, ordinal_, stamp) : fence->wait(memory_, stamp);
    const bool has_no_event = status == Status::kNotReady && fence->is_closed() && may_record_;
    return has_no_event ? synchronize() : status;
  }
  [[nodiscard]] Status synchronize() override {
    const Stamp until = last_stamp_;
    const Status status = memory_.synchronize(ordinal_);
    if (status != Status::kOk) return status;
    for (Fence<M>& fence : fences_) fence.retire(memory_, until);
    return status;
  }
  [[nodiscard]] StreamHandle close(StreamHandle stream) override {
    Fence<M>* fence = fence_of(stream);
    if (fence == nullptr || fence->is_closed()) return stream;
    fence->close(memory_, ordinal_, ++last_stamp_, ++last_alias_);
    return last_alias_;
  }

 private:
  // No pointer, and so no stream, has such a handle.
  static constexpr StreamHandle kFirstAlias = StreamHandle{1} << 63;

  // nullptr: of a stream that is gone, and whose work is done.
  [[nodiscard]] Fence<M>* fence_of(StreamHandle stream) {
    for (Fence<M>& fence : fences_) {
      if (fence.stream() == stream) return &fence;
    }
    return stream >= kFirstAlias ? nullptr : &fences_.emplace_back(stream);
  }
  void drop(Fence<M>* fence) {
    fence->retire(memory_, last_stamp_);
    *fence = fences_.back();
    fences_.pop_back();
  }

  M& memory_;
  uint32_t ordinal_;
  Stamp last_stamp_ = 0;
  StreamHandle last_alias_ = kFirstAlias;
  bool may_record_ = true;
  bool knows_graphs_ = false;  // there are some, or will be
  std::vector<Fence<M>> fences_;
};

}  // namespace vram::pool
