// PoolAllocator: blocks out, blocks back, and the error when there are none. Part of
// pool_allocator.hpp.
#pragma once

#include "pool_allocator.hpp"

#include <pthread.h>

namespace vram_torch {

// A child that is forked while CUDA runs has neither pools nor CUDA: blocks that it inherited are
// freed by forgetting them. One that is forked earlier inherits none, and is like any process.
inline std::atomic<bool> is_forked{false};

inline PoolAllocator& PoolAllocator::get() {
  static auto* const kOnly = new PoolAllocator;
  return *kOnly;
}

inline void PoolAllocator::attach(CUDAAllocator& native) {
  native_ = &native;
  (void)vram_add_reclaim_hook(&reclaim, this);
  (void)pthread_atfork(nullptr, nullptr, [] {
    if (get().native_->initialized() || get().pools_.is_any_open()) is_forked = true;
  });
}

inline DataPtr PoolAllocator::allocate(size_t bytes) {
  const DeviceIndex device = c10::cuda::current_device();
  const c10::Device where(c10::DeviceType::CUDA, device);
  if (bytes == 0) return {nullptr, nullptr, &release, where};
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device).stream();
  if (is_served_natively(device, stream)) {
    return natively([&] { return adopt(native_->allocate(bytes)); });
  }
  void* const block = serve(bytes, device, stream);
  return {block, block, &release, where};
}

inline void* PoolAllocator::raw_alloc(size_t bytes) {
  return raw_alloc_with_stream(
      bytes, c10::cuda::getCurrentCUDAStream(c10::cuda::current_device()).stream());
}

inline void* PoolAllocator::raw_alloc_with_stream(size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  const DeviceIndex device = c10::cuda::current_device();
  if (!is_served_natively(device, stream)) return serve(bytes, device, stream);
  return natively([&] {
    void* const block = native_->raw_alloc_with_stream(bytes, stream);
    adopted_.put(block, native_->raw_deleter());
    return block;
  });
}

template <class Native>
DataPtr PoolAllocator::allocate_with_address(size_t bytes, void* address) {
  const StackOfRequest stack;
  return adopt(static_cast<Native&>(*native_).allocateWithAddress(bytes, address));
}

// The handle of the per-thread default stream names another stream in each thread: the pool can't
// tell its work apart.
inline bool PoolAllocator::is_served_natively(DeviceIndex device, cudaStream_t stream) {
  if (!private_pools_.is_quiet()) {
    free_deferred();
    if (private_pools_.is_all_native() || private_pools_.accept(device, stream)) return true;
  }
  return C10_UNLIKELY(stream == cudaStreamPerThread) || pools_.of(device) == nullptr;
}

// During a capture the pool must not wait for the device: that would break the capture. While a
// private pool is active it believes that there is one; here the driver is asked.
inline vram_status PoolAllocator::request(vram_pool* pool, size_t bytes, cudaStream_t stream,
                                          void** block) {
  if (private_pools_.is_quiet()) return vram_alloc(pool, bytes, stream, block);
  const RelaxedCapture relaxed;
  const auto try_alloc = [&] { return vram_alloc(pool, bytes, stream, block); };
  const bool is_early = private_pools_.may_be_capturing();
  const vram_status status = waiting(try_alloc);
  if (status != VRAM_OUT_OF_MEMORY || !is_early || private_pools_.is_capturing()) return status;
  private_pools_.wait_until_it_is_known();
  return waiting(try_alloc);
}

inline void* PoolAllocator::serve(size_t bytes, DeviceIndex device, cudaStream_t stream) {
  vram_pool* const pool = pools_.of(device);
  void* block = nullptr;
  const vram_status status = request(pool, bytes, stream, &block);
  if (status == VRAM_OUT_OF_MEMORY) out_of_memory(pool, device, bytes);
  if (status != VRAM_OK) {
    TORCH_CHECK(false, "vram: " + std::to_string(bytes) + " bytes on cuda:" +
                           std::to_string(device) + ": " + vram_status_text(status));
  }
  if (const auto* python = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(python != nullptr))
    (*python)->trace_gpu_memory_allocation(c10::DeviceType::CUDA,
                                           reinterpret_cast<uintptr_t>(block));
  if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
    report_use(block, static_cast<int64_t>(bytes), device);
  return block;
}

// The native allocator's blocks get our deleter, as PyTorch compares deleters with raw_deleter();
// their own one is kept.
inline DataPtr PoolAllocator::adopt(DataPtr data) {
  const c10::DeleterFnPtr own = data.get_deleter();
  if (data.get_context() == nullptr || own == &release) return data;
  adopted_.put(data.get_context(), own);
  (void)data.compare_exchange_deleter(own, &release);
  return data;
}

inline void PoolAllocator::release_native(void* address) {
  if (is_forked) return;
  if (const c10::DeleterFnPtr own = adopted_.take(address)) return own(address);
  native_->raw_delete(address);  // from before vram, and not a tensor's
}

inline void PoolAllocator::release(void* address) {
  if (address == nullptr) return;
  PoolAllocator& self = get();
  if (vram_owns(address) == 0) return self.release_native(address);
  if (const auto* python = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(python != nullptr))
    (*python)->trace_gpu_memory_deallocation(c10::DeviceType::CUDA,
                                             reinterpret_cast<uintptr_t>(address));
  if (!self.private_pools_.is_quiet()) {
    if (self.is_deferred(address)) return;
    self.free_deferred();
  }
  self.free_block(address);
}

inline void PoolAllocator::free_block(void* address) {
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    vram_block_info info{};
    const int device = pools_.find(address, &info);
    if (device >= 0)
      report_use(address, -static_cast<int64_t>(info.requested_bytes),
                 static_cast<DeviceIndex>(device));
  }
  const bool is_freed = allowing_captures([&] { return pools_.free(address); });
  TORCH_CHECK(is_freed, "vram: freed what is no block of the pool, or a block twice: ", address);
}

inline bool PoolAllocator::is_deferred(void* address) {
  vram_block_info info{};
  if (!private_pools_.is_capturing() || pools_.find(address, &info) < 0) return false;
  return private_pools_.defer_free(address, static_cast<cudaStream_t>(info.stream));
}

inline void PoolAllocator::free_deferred() {
  for (void* const block : private_pools_.take_back()) free_block(block);
}

inline void PoolAllocator::record_stream(const DataPtr& data, CUDAStream stream) {
  if (data.get() == nullptr) return;
  if (data.get_deleter() != &release) return native_->recordStream(data, stream);
  void* const block = data.get_context();
  if (vram_owns(block) != 0) {
    const vram_status status =
        vram_record_stream(pools_.of(data.device().index()), block, stream.stream());
    TORCH_CHECK(status == VRAM_OK, "vram: record_stream: ", block, " in stream ",
                static_cast<void*>(stream.stream()), ": ",
                status == VRAM_NOT_SUPPORTED ? vram_last_error() : vram_status_text(status));
    return;
  }
  if (is_forked) return;
  // One that was adopted: the native allocator takes its own deleter only.
  const c10::DeleterFnPtr own = adopted_.find(block);
  DataPtr native(data.get(), block, own != nullptr ? own : native_->raw_deleter(), data.device());
  native_->recordStream(native, stream);
  native.release_context();
}

inline void* PoolAllocator::get_base_allocation(void* address, size_t* size) {
  vram_block_info info{};
  if (vram_owns(address) == 0) return native_->getBaseAllocation(address, size);
  TORCH_CHECK(pools_.find(address, &info) >= 0, "vram: no live block holds ", address);
  if (size != nullptr) *size = info.size_bytes;
  return info.address;
}

// Programs look for "CUDA out of memory." in the text, so that is how it begins.
inline void PoolAllocator::out_of_memory(vram_pool* pool, DeviceIndex device, size_t bytes) {
  observe_out_of_memory(pool, device, bytes);
  char why[4096] = "";
  (void)vram_explain_oom(pool, why, sizeof why);
  TORCH_CHECK_WITH(OutOfMemoryError, false, std::string("CUDA out of memory. ") + why);
}

}  // namespace vram_torch
