// Registry: the open pools of this process, one for each device; the driver, opened with the first
// pool; and the hooks that are called before a request fails. May be used from any thread; opening
// and closing take a lock, lookups do not.
#pragma once

#include "base/result.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "gpu/cuda/driver.hpp"
#include "pool/device.hpp"
#include "pool/shared_pool.hpp"
#include "record/recorder.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vram/vram.h>

namespace vram::capi {

// Reports a pool's events to the recorder. While nothing is recorded, hot calls cost one load.
class PoolTap final : public pool::Observer {
 public:
  PoolTap(uint16_t device, pool::SharedPool& pool) : device_(device), pool_(pool) {}

  // The stack of a request, taken before it: no lock of the pool is held then, but maybe one of the
  // caller's that the GIL's owner waits for. So the wait is limited, but long enough for threads
  // that compete for the interpreter.
  static constexpr std::chrono::seconds kGilTimeout{5};
  [[nodiscard]] static record::StackId stack_of_caller() {
    return record::Recorder::is_on() ? record::Recorder::try_capture_stack(kGilTimeout) : 0;
  }
  // After the block was granted; address 0: it was not.
  void allocated(uint64_t address, uint64_t bytes, uint64_t stream, record::StackId stack) {
    if (record::Recorder::is_on()) record_allocated(address, bytes, stream, stack);
  }
  // Before the block is freed.
  void freeing(uint64_t address) {
    if (record::Recorder::is_on()) record_freeing(address);
  }
  void used_by(uint64_t address, uint64_t stream) {
    if (record::Recorder::is_on()) record_used_by(address, stream);
  }
  // Reports the existing memory when a recording starts.
  void report_all() { pool_.report_all(*this); }

  void mapped(uint64_t address, uint64_t bytes) override;
  void unmapped(uint64_t address, uint64_t bytes) override;
  void finished(uint64_t block) override;
  void found_mapped(uint64_t address, uint64_t bytes) override;
  void part(uint64_t block, uint64_t home, uint64_t bytes) override;
  void found_block(uint64_t address, uint64_t requested_bytes, uint64_t stream,
                   pool::Found state) override;

 private:
  void write_event(record::Op op, uint64_t address, uint64_t bytes = 0, uint64_t stream = 0,
                   record::StackId stack = 0) const;
  void record_memory(record::Op op, uint64_t address, uint64_t bytes, uint64_t block = 0) const;
  void record_allocated(uint64_t address, uint64_t bytes, uint64_t stream, record::StackId stack);
  void record_freeing(uint64_t address);
  void record_used_by(uint64_t address, uint64_t stream);

  uint16_t device_;
  pool::SharedPool& pool_;
};

// The object behind a vram_pool: one device's memory, its order, and the pool shared by all
// threads.
//
// The handle itself is never freed, so that a closed one is always recognized: each last close
// leaves 16 bytes.

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

class Registry {
 public:
  static constexpr int kMaxDevices = 64;
  static constexpr size_t kMaxHooks = 8;

  // The one of this process. Never destroyed: blocks may be freed while the process ends.
  static Registry& get();

  // The pool of a device, opened if it is not. kNotFound, kUnsupported, kInvalidArgument.
  [[nodiscard]] Result<vram_pool*> open(int device, const vram_pool_options& options);
  // False: the handle is closed already.
  [[nodiscard]] bool close(vram_pool* handle);

  // Whether the address is in the memory of a pool that is open.
  [[nodiscard]] bool owns(uint64_t address);
  [[nodiscard]] bool has_pool(int device) const {
    return device >= 0 && device < kMaxDevices &&
           pools_[static_cast<size_t>(device)].load(std::memory_order_relaxed) != nullptr;
  }
  // Whether this process has opened pools before a fork and is the child.
  [[nodiscard]] bool is_forked() const { return is_forked_.load(std::memory_order_relaxed); }

  // Reports the memory of all open pools to the recorder.
  void report_all();

  [[nodiscard]] bool add_hook(vram_reclaim_fn hook, void* user);
  [[nodiscard]] bool remove_hook(vram_reclaim_fn hook, void* user);
  [[nodiscard]] bool run_hooks(int device, uint64_t bytes);

 private:
  struct Hook {
    vram_reclaim_fn function = nullptr;
    void* user = nullptr;
  };
  Registry() = default;
  [[nodiscard]] Result<vram_pool*> reopen(int device, const vram_pool_options& options);

  std::mutex lock_;  // of everything here that is not atomic
  std::optional<gpu::cuda::DriverApi> driver_;
  std::deque<vram_pool> handles_;  // of closed pools, too
  std::array<std::atomic<vram_pool*>, kMaxDevices> pools_{};
  std::atomic<int> pool_end_{0};  // devices below it may have pools
  std::array<Hook, kMaxHooks> hooks_{};
  std::atomic<bool> is_forked_{false};
};

}  // namespace vram::capi
