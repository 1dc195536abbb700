// The object behind a vram_pool: one device's memory, its order, and the pool shared by all
// threads.
//
// The handle itself is never freed, so that a closed one is always recognized: each last close
// leaves 16 bytes.
#pragma once

#include "capi/pool_tap.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "pool/device.hpp"
#include "pool/shared_pool.hpp"

#include <atomic>
#include <memory>

namespace vram::capi {

struct OpenPool {
  OpenPool(int number, std::unique_ptr<gpu::cuda::CudaMemory> gpu,
           const vram::pool::Options& options)
      : device(number),
        memory(std::move(gpu)),
        order(*memory, memory->ordinal()),
        pool(order, options),
        tap(static_cast<uint16_t>(number), pool) {
    pool.set_observer(&tap);
  }

  int device;
  std::unique_ptr<gpu::cuda::CudaMemory> memory;
  vram::pool::Device order;
  vram::pool::SharedPool pool;
  PoolTap tap;
};

}  // namespace vram::capi

struct vram_pool {  // NOLINT(readability-identifier-naming): its name in C
  std::atomic<vram::capi::OpenPool*> open{nullptr};  // nullptr: closed
  int opens = 1;                                     // guarded by the registry
};

namespace vram::capi {

// nullptr: no handle, or a closed one.
[[nodiscard]] inline OpenPool* opened(const vram_pool* handle) {
  return handle == nullptr ? nullptr : handle->open.load(std::memory_order_acquire);
}

}  // namespace vram::capi
