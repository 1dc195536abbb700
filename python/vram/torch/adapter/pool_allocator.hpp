// PoolAllocator: what vram does in PyTorch's place. Every ordinary request is served by the
// device's pool; what is PyTorch's own business (private pools, graphs, history, inter-process
// handles) goes to the native allocator.
//
// Decorator (written from PyTorch's header, see _decorator.py) is the class PyTorch calls; it hands
// the calls listed there to this one and all others to the native allocator. Templates of any
// number of arguments stand where versions of PyTorch differ in them.
//
// Any thread may call. allocate and release take no lock of ours unless a private pool is active
// somewhere.
//
// Once it is PyTorch's allocator it stays so. After vram.disable() every request goes to the native
// allocator, but the pool's blocks and those that were adopted still need record_stream and
// empty_cache to reach their owner.
#pragma once

#include "adopted.hpp"
#include "figures.hpp"
#include "oom_observers.hpp"
#include "pools.hpp"
#include "private_pools.hpp"
#include "stack_of_request.hpp"

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <string>
#include <utility>

namespace vram_torch {

using c10::DataPtr;
using c10::DeviceIndex;
using c10::cuda::CUDAStream;
using torch_cuda::CUDAAllocator;
using DeviceStats = decltype(std::declval<CUDAAllocator&>().getDeviceStats(0));

constexpr const char* kNoIpc =
    "vram: this tensor can't be shared with another process: CUDA's handles (cudaIpcGetMemHandle) "
    "are only for memory "
    "from cudaMalloc. Allocate it inside `with torch.cuda.use_mem_pool(torch.cuda.MemPool()):`, "
    "which PyTorch's own "
    "allocator serves, or send it by way of host memory";

class PoolAllocator {
 public:
  // The one there is; it lives as long as the process, as blocks may.
  static PoolAllocator& get();

  // `native` is the allocator that vram stands before; called once, before anything else.
  void attach(CUDAAllocator& native);
  void limit(uint64_t limit_bytes) { pools_.set_limit(limit_bytes); }
  // False: from now on the native allocator serves everything.
  void set_serving(bool serving) { private_pools_.set_disabled(!serving); }
  CUDAAllocator& native() const { return *native_; }

  // Requests
  DataPtr allocate(size_t bytes);
  void* raw_alloc(size_t bytes);
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream);
  void raw_delete(void* address) { release(address); }
  c10::DeleterFnPtr raw_deleter() const { return &release; }
  void record_stream(const DataPtr& data, CUDAStream stream);
  void* get_base_allocation(void* address, size_t* size);
  template <class Native = CUDAAllocator>
  void enable(bool value);
  template <class Native = CUDAAllocator>
  DataPtr allocate_with_address(size_t bytes, void* address);

  // Private pools
  void begin_allocate_to_pool(DeviceIndex device, MempoolId_t id, StreamFilter filter);
  void end_allocate_to_pool(DeviceIndex device, MempoolId_t id);
  template <class State>
  torch_cuda::CheckpointDelta set_checkpoint_pool_state(DeviceIndex device, State state);

  // Memory and limits
  template <class... Id>
  void empty_cache(const Id&... id);
  void set_memory_fraction(double fraction, DeviceIndex device);
  void cache_info(DeviceIndex device, size_t* largest_block);
  void enable_peer_access(DeviceIndex device, DeviceIndex owner);
  cudaError_t memcpy_async(void* to, int to_device, const void* from, int from_device, size_t bytes,
                           cudaStream_t stream, bool is_peer_enabled);
  void attach_out_of_memory_observer(torch_cuda::OutOfMemoryObserver observer);

  // Figures
  DeviceStats get_device_stats(DeviceIndex device);
  void reset_accumulated_stats(DeviceIndex device);
  void reset_peak_stats(DeviceIndex device);
  template <class... Arguments>
  torch_cuda::SnapshotInfo snapshot(const Arguments&... arguments);

  // What is impossible for memory of the pool
  template <class Native = CUDAAllocator>
  auto share_ipc_handle(void* address) {
    TORCH_CHECK(vram_owns(address) == 0, kNoIpc);
    return static_cast<Native&>(*native_).shareIpcHandle(address);
  }
  template <class Native = CUDAAllocator>
  auto get_context_for_pointer(const void* address) {
    auto& native = static_cast<Native&>(*native_);
    return vram_owns(address) != 0 ? decltype(native.getContextForPointer(address)){}
                                   : native.getContextForPointer(address);
  }
  std::string name() const { return private_pools_.is_disabled() ? native_->name() : "vram"; }

 private:
  static void release(void* address);
  static int reclaim(void* self, int device, size_t bytes);

  vram_status request(vram_pool* pool, size_t bytes, cudaStream_t stream, void** block);
  void* serve(size_t bytes, DeviceIndex device, cudaStream_t stream);
  bool is_served_natively(DeviceIndex device, cudaStream_t stream);
  // A request to the native allocator; what the pool holds free is given up before it fails, and
  // only then is the error observed.
  template <class Request>
  auto natively(Request request) {
    const StackOfRequest stack;
    {
      const HeldOom held;
      try {
        return request();
      } catch (const c10::OutOfMemoryError&) {
        if (private_pools_.is_capturing()) {
          for (const Oom& oom : held.ooms()) observers_.observe(oom);
          throw;
        }
      }
    }
    trim_all();
    return request();
  }
  template <class Request>
  auto allowing_captures(Request request) const {
    if (private_pools_.is_quiet()) return request();
    const RelaxedCapture relaxed;
    return request();
  }
  // A call to the library that may wait for the device, unless a graph is captured.
  template <class Call>
  auto waiting(Call call);
  DataPtr adopt(DataPtr data);
  void release_native(void* address);
  void free_block(void* address);
  bool is_deferred(void* address);
  void free_deferred();
  void trim_all();
  [[noreturn]] void out_of_memory(vram_pool* pool, DeviceIndex device, size_t bytes);
  void observe_out_of_memory(vram_pool* pool, DeviceIndex device, size_t bytes);
  void report_use(void* address, int64_t bytes, DeviceIndex device);

  CUDAAllocator* native_ = nullptr;
  Pools pools_;
  PrivatePools private_pools_;
  Adopted adopted_;
  OomObservers observers_;
};

}  // namespace vram_torch

#include "pool_allocator_memory.hpp"
#include "pool_allocator_requests.hpp"
