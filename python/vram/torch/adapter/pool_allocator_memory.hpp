// PoolAllocator: private pools, giving memory back, limits, several devices, figures.
// Part of pool_allocator.hpp.
#pragma once

#include "pool_allocator.hpp"

#include <cstdlib>
#include <limits>
#include <string_view>

namespace vram_torch {

struct DeviceMemory {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
};

inline DeviceMemory memory_of(DeviceIndex device) {
  DeviceMemory memory;
  const DeviceIndex before = c10::cuda::ExchangeDevice(device);
  c10::cuda::SetTargetDevice();  // it may have been put off until the device is needed
  const cudaError_t error = cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes);
  c10::cuda::ExchangeDevice(before);
  C10_CUDA_CHECK(error);
  return memory;
}

// PyTorch calls this right before it begins to capture. Whether it will is not said (a MemPool
// begins in the same way), and other threads may be about to wait for the device: so the pools
// learn of it now, and waiting() looks closer.
inline void PoolAllocator::begin_allocate_to_pool(DeviceIndex device, MempoolId_t id,
                                                  StreamFilter filter) {
  native_->beginAllocateToPool(device, id, filter);
  private_pools_.begin(device, id, std::move(filter),
                       c10::cuda::getCurrentCUDAStream(device).stream());
  pools_.begin_capture();
}

inline void PoolAllocator::end_allocate_to_pool(DeviceIndex device, MempoolId_t id) {
  native_->endAllocateToPool(device, id);
  if (private_pools_.end(device, id)) pools_.end_capture();
  free_deferred();
}

template <class Call>
auto PoolAllocator::waiting(Call call) {
  const uint64_t begins = pools_.begins();
  const bool is_waiting = !private_pools_.may_be_capturing() && pools_.start_waiting(begins);
  const auto answer = call();
  if (is_waiting) pools_.stop_waiting();
  return answer;
}

template <class State>
torch_cuda::CheckpointDelta PoolAllocator::set_checkpoint_pool_state(DeviceIndex device,
                                                                     State state) {
  auto delta = native_->setCheckpointPoolState(device, std::move(state));
  for (void* const freed : delta.ptrs_freed) (void)adopted_.take(freed);
  for (DataPtr& data : delta.dataptrs_allocd) data = adopt(std::move(data));
  return delta;
}

template <class Native>
void PoolAllocator::enable(bool value) {
  static_cast<Native&>(*native_).enable(value);
  private_pools_.set_bypassed(!value);
}

template <class... Id>
void PoolAllocator::empty_cache(const Id&... id) {
  native_->emptyCache(id...);
  if ((... && (id == Id{}))) trim_all();  // no id, or the one of no private pool
}

// Trimming waits for the device, which no thread may while a graph is captured.
inline void PoolAllocator::trim_all() {
  if (!private_pools_.is_quiet() && private_pools_.is_capturing()) return;
  if (!private_pools_.is_quiet()) private_pools_.wait_until_it_is_known();
  pools_.for_each([this](int, vram_pool* pool) {
    const auto trim = [pool] { return vram_trim(pool, std::numeric_limits<size_t>::max()); };
    (void)(private_pools_.is_quiet() ? trim() : waiting(trim));
  });
}

// Called by the pool when it can't serve a request: what the native allocator and its friends can
// spare.
inline int PoolAllocator::reclaim(void* self, int, size_t) {
  auto& allocator = *static_cast<PoolAllocator*>(self);
  if (!allocator.private_pools_.is_quiet() && allocator.private_pools_.is_capturing()) return 0;
  try {
    for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
      (void)c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
    allocator.native_->emptyCache();
    return 1;
  } catch (...) {  // the pool is C; the request then fails as it would have
    return 0;
  }
}

inline void PoolAllocator::set_memory_fraction(double fraction, DeviceIndex device) {
  native_->setMemoryFraction(fraction, device);
  vram_pool* const pool = pools_.of(device);
  if (pool == nullptr) return;
  uint64_t limit = pools_.limit_bytes();
  if (fraction < 1.0) {
    const auto share =
        static_cast<uint64_t>(fraction * static_cast<double>(memory_of(device).total_bytes));
    limit = limit == 0 ? share : std::min(limit, share);
  }
  TORCH_CHECK(vram_limit(pool, limit) == VRAM_OK, "vram: can't limit the pool to ", limit,
              " bytes");
}

// The pool can show all its free memory, and the device's, as one range.
inline void PoolAllocator::cache_info(DeviceIndex device, size_t* largest_block) {
  native_->cacheInfo(device, largest_block);
  vram_pool* const pool = pools_.of(device);
  if (pool == nullptr) return;
  const vram_stats stats = stats_of(pool);
  const uint64_t in_use = stats.active_bytes.current;
  uint64_t most = memory_of(device).free_bytes + (stats.reserved_bytes.current - in_use);
  if (stats.limit_bytes != 0)
    most = std::min(most, stats.limit_bytes - std::min(stats.limit_bytes, in_use));
  *largest_block = std::max(*largest_block, static_cast<size_t>(most));
}

inline void PoolAllocator::enable_peer_access(DeviceIndex device, DeviceIndex owner) {
  if (vram_pool* const pool = pools_.of(owner)) {
    const vram_status status = vram_enable_peer(pool, device);
    TORCH_CHECK(status == VRAM_OK, "vram: cuda:", static_cast<int>(device),
                " can't reach the memory of cuda:", static_cast<int>(owner), ": ",
                vram_status_text(status));
  }
  native_->enablePeerAccess(device, owner);
}

// Without peer access, cudaMemcpyAsync can't reach mapped memory of another device;
// cudaMemcpyPeerAsync can.
inline cudaError_t PoolAllocator::memcpy_async(void* to, int to_device, const void* from,
                                               int from_device, size_t bytes, cudaStream_t stream,
                                               bool is_peer_enabled) {
  const bool is_ours = vram_owns(to) != 0 || vram_owns(from) != 0;
  if (is_ours && to_device != from_device && !is_peer_enabled)
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
  return native_->memcpyAsync(to, to_device, from, from_device, bytes, stream, is_peer_enabled);
}

inline void PoolAllocator::attach_out_of_memory_observer(torch_cuda::OutOfMemoryObserver observer) {
  observers_.add(std::move(observer), *native_);
}

inline void PoolAllocator::observe_out_of_memory(vram_pool* pool, DeviceIndex device,
                                                 size_t bytes) {
  const DeviceMemory memory = memory_of(device);
  const vram_stats stats = stats_of(pool);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), stats.allocated_bytes.current,
                                   stats.reserved_bytes.current,
                                   c10::Device(c10::DeviceType::CUDA, device));
  observers_.observe({device, bytes, memory.total_bytes, memory.free_bytes});
}

inline void PoolAllocator::report_use(void* address, int64_t bytes, DeviceIndex device) {
  const vram_stats stats = stats_of(pools_.of(device));
  c10::reportMemoryUsageToProfiler(address, bytes, stats.allocated_bytes.current,
                                   stats.reserved_bytes.current,
                                   c10::Device(c10::DeviceType::CUDA, device));
}

inline DeviceStats PoolAllocator::get_device_stats(DeviceIndex device) {
  DeviceStats stats = native_->getDeviceStats(device);
  if (vram_pool* const pool = pools_.opened(device)) add(stats, stats_of(pool));
  return stats;
}

inline void PoolAllocator::reset_accumulated_stats(DeviceIndex device) {
  native_->resetAccumulatedStats(device);
  if (vram_pool* const pool = pools_.opened(device)) (void)vram_reset_sums(pool);
}

inline void PoolAllocator::reset_peak_stats(DeviceIndex device) {
  native_->resetPeakStats(device);
  if (vram_pool* const pool = pools_.opened(device)) (void)vram_reset_peaks(pool);
}

// Of the arguments that snapshot has in different versions, the one that limits it to a private
// pool.
inline bool names_private_pool(const MempoolId_t& id) { return id != MempoolId_t{}; }
inline bool names_private_pool(bool) { return false; }

// With this setting PyTorch's NCCL backend registers every segment of a snapshot for the life of a
// communicator. The pool's ranges must not be among them: what lies behind an address may change
// once its block is freed, and the backend would not hear of it (docs/pytorch.md).
inline bool is_read_for_registration() {
  const char* const setting = std::getenv("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK");
  return setting != nullptr && *setting != '\0' && std::string_view(setting) != "0";
}

template <class... Arguments>
torch_cuda::SnapshotInfo PoolAllocator::snapshot(const Arguments&... arguments) {
  auto snapshot = native_->snapshot(arguments...);
  if ((... || names_private_pool(arguments)) || is_read_for_registration()) return snapshot;
  pools_.for_each([&](int device, vram_pool* pool) {
    SegmentsOfPool segments(device);
    (void)vram_visit(
        pool,
        [](void* to, const vram_part* part) { static_cast<SegmentsOfPool*>(to)->take(*part); },
        &segments);
    segments.append_to(snapshot.segments);
  });
  return snapshot;
}

}  // namespace vram_torch
