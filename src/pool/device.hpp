// Device: what the pool needs of one device, and the adaptor that makes it of any gpu::Memory. Two
// halves: memory (as memory.hpp says) and order: when the work that was queued in a stream is done.
//
// Order by stamps: a stamp is a number that grows with every use and costs no driver call. Only who
// asks whether it is done makes an event, and one event answers for all stamps before it. Streams
// are named by their handles. One thread at a time; allocates at a stream's first use.
#pragma once

#include "gpu/memory.hpp"

#include <cstdint>
#include <vector>

namespace vram::pool {

using gpu::Address;
using gpu::Status;
using gpu::StreamHandle;
using Stamp = uint64_t;

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual uint64_t granularity_bytes() const = 0;
  [[nodiscard]] virtual Status memory_info(gpu::MemoryInfo* info) = 0;
  [[nodiscard]] virtual Status reserve(uint64_t bytes, Address* address) = 0;
  [[nodiscard]] virtual Status unreserve(Address address, uint64_t bytes) = 0;
  [[nodiscard]] virtual Status create(uint64_t bytes, gpu::Handle* handle) = 0;
  [[nodiscard]] virtual Status release(gpu::Handle handle) = 0;
  [[nodiscard]] virtual Status map(Address address, uint64_t bytes, gpu::Handle handle) = 0;
  [[nodiscard]] virtual Status set_access(Address address, uint64_t bytes) = 0;
  [[nodiscard]] virtual Status unmap(Address address, uint64_t bytes) = 0;

  // Stands for all work queued in the stream so far. Called at every free: no driver call.
  [[nodiscard]] virtual Stamp stamp(StreamHandle stream) = 0;
  // Whether that work is done. May ask the driver; false where it can't be known.
  [[nodiscard]] virtual bool is_done(StreamHandle stream, Stamp stamp) = 0;
  // Later work of `waiting` starts after the stamped work; the host does not wait.
  [[nodiscard]] virtual Status stream_wait(StreamHandle waiting, StreamHandle stream,
                                           Stamp stamp) = 0;
  // The host waits for all of the device.
  [[nodiscard]] virtual Status synchronize() = 0;
};

template <gpu::Memory M>
class DeviceOn : public Device {
 public:
  // memory must outlive it.
  DeviceOn(M& memory, uint32_t ordinal) : memory_(memory), ordinal_(ordinal) {}
  ~DeviceOn() override {
    for (const Fence& fence : fences_) {
      if (fence.is_queued) (void)memory_.destroy(fence.event);
    }
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

  [[nodiscard]] Stamp stamp(StreamHandle) override { return ++last_stamp_; }
  [[nodiscard]] bool is_done(StreamHandle stream, Stamp stamp) override {
    Fence& fence = fence_of(stream);
    if (fence.done >= stamp) return true;
    if (!fence.is_queued && !queue(fence)) return false;
    if (memory_.query(fence.event) != Status::kOk) return false;
    retire(fence);
    return fence.done >= stamp;
  }
  [[nodiscard]] Status stream_wait(StreamHandle waiting, StreamHandle stream,
                                   Stamp stamp) override {
    Fence& fence = fence_of(stream);
    if (fence.done >= stamp) return Status::kOk;
    gpu::EventHandle event = 0;
    if (const Status s = memory_.record(ordinal_, stream, &event); s != Status::kOk) return s;
    const Status waited = memory_.stream_wait(ordinal_, waiting, event);
    (void)memory_.destroy(event);
    return waited;
  }
  [[nodiscard]] Status synchronize() override {
    const Stamp until = last_stamp_;
    const Status status = memory_.synchronize(ordinal_);
    if (status != Status::kOk) return status;
    for (Fence& fence : fences_) fence.done = until;
    return status;
  }

 private:
  // The work of a stream up to stamp `done` is done; an event stands behind stamp `queued`.
  struct Fence {
    StreamHandle stream = 0;
    Stamp done = 0;
    Stamp queued = 0;
    gpu::EventHandle event = 0;
    bool is_queued = false;
  };
  [[nodiscard]] Fence& fence_of(StreamHandle stream) {
    for (Fence& fence : fences_) {
      if (fence.stream == stream) return fence;
    }
    return fences_.emplace_back(Fence{.stream = stream});
  }
  [[nodiscard]] bool queue(Fence& fence) {
    if (memory_.record(ordinal_, fence.stream, &fence.event) != Status::kOk) return false;
    fence.queued = last_stamp_;
    fence.is_queued = true;
    return true;
  }
  void retire(Fence& fence) {
    fence.done = fence.queued > fence.done ? fence.queued : fence.done;
    fence.is_queued = false;
    (void)memory_.destroy(fence.event);
  }

  M& memory_;
  uint32_t ordinal_;
  Stamp last_stamp_ = 0;
  std::vector<Fence> fences_;
};

}  // namespace vram::pool
