// What is behind a vram_pool: one device's memory, its order, and the pool of all threads on it.
#pragma once

#include "capi/pool_tap.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "pool/device_on.hpp"
#include "pool/shared_pool.hpp"

#include <memory>

struct vram_pool {  // NOLINT(readability-identifier-naming): its name in C
  vram_pool(int number, std::unique_ptr<vram::gpu::cuda::CudaMemory> gpu,
            const vram::pool::Options& options)
      : device(number),
        memory(std::move(gpu)),
        order(*memory, memory->ordinal()),
        pool(order, options),
        tap(static_cast<uint16_t>(number), pool) {
    pool.tell(&tap);
  }

  int device;
  int opens = 1;  // guarded by the registry
  std::unique_ptr<vram::gpu::cuda::CudaMemory> memory;
  vram::pool::DeviceOn<vram::gpu::cuda::CudaMemory> order;
  vram::pool::SharedPool pool;
  vram::capi::PoolTap tap;
};
