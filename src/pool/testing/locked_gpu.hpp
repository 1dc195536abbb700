// LockedGpu: the checked GPU for several threads, one at a time, as the driver is. To its checks
// all threads are one host: what one of them knows to be done, all know, as they do who meet at the
// pool's lock.
#pragma once

#include "gpu/sim/checked_gpu.hpp"

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace vram::pool {

class LockedGpu {
 public:
  using Gpu = gpu::CheckedGpu;
  using Address = gpu::Address;
  using Status = gpu::Status;
  using Stream = gpu::StreamHandle;
  using Event = gpu::EventHandle;

  explicit LockedGpu(const gpu::SimOptions& options) : gpu_(options) {}

  // Several calls as one: function(CheckedGpu&).
  template <typename Function>
  auto with(Function function) {
    const std::lock_guard guard(lock_);
    return function(gpu_);
  }

  uint32_t device_count() { return gpu_.device_count(); }
  uint64_t granularity_bytes() { return gpu_.granularity_bytes(); }
  Status memory_info(uint32_t device, gpu::MemoryInfo* info) {
    return with([&](Gpu& gpu) { return gpu.memory_info(device, info); });
  }
  Status alloc_segment(uint32_t device, uint64_t bytes, Address* address) {
    return with([&](Gpu& gpu) { return gpu.alloc_segment(device, bytes, address); });
  }
  Status free_segment(uint32_t device, Address address) {
    return with([&](Gpu& gpu) { return gpu.free_segment(device, address); });
  }
  Status reserve(uint64_t bytes, Address* address) {
    return with([&](Gpu& gpu) { return gpu.reserve(bytes, address); });
  }
  Status unreserve(Address address, uint64_t bytes) {
    return with([&](Gpu& gpu) { return gpu.unreserve(address, bytes); });
  }
  Status create(uint32_t device, uint64_t bytes, gpu::Handle* handle) {
    return with([&](Gpu& gpu) { return gpu.create(device, bytes, handle); });
  }
  Status release(gpu::Handle handle) {
    return with([&](Gpu& gpu) { return gpu.release(handle); });
  }
  Status map(Address address, uint64_t bytes, gpu::Handle handle) {
    return with([&](Gpu& gpu) { return gpu.map(address, bytes, handle); });
  }
  Status set_access(Address address, uint64_t bytes, uint32_t device) {
    return with([&](Gpu& gpu) { return gpu.set_access(address, bytes, device); });
  }
  Status unmap(Address address, uint64_t bytes) {
    return with([&](Gpu& gpu) { return gpu.unmap(address, bytes); });
  }
  Status record(uint32_t device, Stream stream, Event* event) {
    return with([&](Gpu& gpu) { return gpu.record(device, stream, event); });
  }
  Status query(Event event) {
    return with([&](Gpu& gpu) { return gpu.query(event); });
  }
  Status wait(Event event) {
    return with([&](Gpu& gpu) { return gpu.wait(event); });
  }
  Status stream_wait(uint32_t device, Stream stream, Event event) {
    return with([&](Gpu& gpu) { return gpu.stream_wait(device, stream, event); });
  }
  Status destroy(Event event) {
    return with([&](Gpu& gpu) { return gpu.destroy(event); });
  }
  Status synchronize(uint32_t device) {
    return with([&](Gpu& gpu) { return gpu.synchronize(device); });
  }

 private:
  std::mutex lock_;
  gpu::CheckedGpu gpu_;
};
static_assert(gpu::Memory<LockedGpu>);

}  // namespace vram::pool
