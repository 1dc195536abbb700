// LockedGpu: the checked GPU for several threads, one at a time, as the driver is. To its checks
// all threads are one host: what one of them knows to be done, all know, as they do who meet at the
// pool's lock.
#pragma once

#include "gpu/sim/checked_gpu.hpp"
#include "gpu/wrapped.hpp"

#include <mutex>

namespace vram::pool {

class LockedGpu {
 public:
  explicit LockedGpu(const gpu::SimOptions& options)
      : gpu_(options), memory_(gpu_, Locked{&lock_}) {}

  // Several calls as one: function(CheckedGpu&).
  template <typename Function>
  auto with(Function function) {
    const std::lock_guard guard(lock_);
    return function(gpu_);
  }
  // Each call alone.
  [[nodiscard]] gpu::Memory& memory() { return memory_; }

 private:
  struct Locked {
    std::mutex* lock;
    template <typename Run>
    gpu::Status operator()(gpu::Call, Run run) const {
      const std::lock_guard guard(*lock);
      return run();
    }
  };

  std::mutex lock_;
  gpu::CheckedGpu gpu_;
  gpu::WrappedMemory<Locked> memory_;
};

}  // namespace vram::pool
