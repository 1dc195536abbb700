// DeviceSamples: while a recording runs, a thread reads once a second how much memory the driver
// reports as used on the devices on which this process has a context, and records it as figures
// (trace/figures.hpp). Reports compare them with what the allocator took.
//
//     NVML ──▶ thread ──▶ Recorder::figure
//
// It initializes nothing of CUDA: a program may still fork, and choose its devices. Devices are
// matched by their UUIDs; what cannot be matched (MIG) or read is not recorded. The thread may hang
// in the driver; other threads wait for it for at most a second.
#pragma once

#include "gpu/cuda/driver_types.hpp"
#include "gpu/telemetry.hpp"
#include "record/stacks/native_stack.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace vram::capi {

// The CUDA driver of this process, if it is loaded and initialized.
class LoadedDriver {
 public:
  // False: the program has not initialized it yet.
  [[nodiscard]] bool find();
  [[nodiscard]] int device_count() const;
  // As NVML has it: "GPU-8f6d0c3b-…"; empty: unknown.
  [[nodiscard]] std::string uuid(int ordinal) const;
  [[nodiscard]] bool has_context(int ordinal) const;
  // What the driver itself keeps for this process: of graphs' memory nodes, of the default pool.
  [[nodiscard]] std::optional<uint64_t> graph_bytes(int ordinal) const;
  [[nodiscard]] std::optional<uint64_t> default_pool_bytes(int ordinal) const;

 private:
  void* library_ = nullptr;
  gpu::cuda::CUresult (*get_count_)(int*) = nullptr;
  gpu::cuda::CUresult (*get_uuid_)(gpu::cuda::CUuuid*, gpu::cuda::CUdevice) = nullptr;
  gpu::cuda::CUresult (*get_state_)(gpu::cuda::CUdevice, unsigned*, int*) = nullptr;
  gpu::cuda::CUresult (*get_graph_attribute_)(gpu::cuda::CUdevice, int, void*) = nullptr;
  gpu::cuda::CUresult (*get_pool_)(void**, gpu::cuda::CUdevice) = nullptr;
  gpu::cuda::CUresult (*get_pool_attribute_)(void*, int, void*) = nullptr;
  gpu::cuda::CUresult (*exchange_capture_mode_)(int*) = nullptr;
};

// The memory of this process, pid, and of all others in a sample of a device; nothing where one of
// them is unknown. A list without this process tells nothing about the others either: the driver
// may number processes as another container does.
struct ProcessShares {
  std::optional<uint64_t> own_bytes;
  std::optional<uint64_t> others_bytes;
};
[[nodiscard]] ProcessShares shares_of(const gpu::DeviceSample& sample, uint32_t pid);

class DeviceSamples {
 public:
  static DeviceSamples& get();

  // Begins with the recording; waits a moment for the first sample, which must come before the
  // program creates its context. Calling it again has no effect.
  void start();
  // The process got memory of the device: at the first call for each device, a sample follows soon.
  void device_is_used(int device);
  // Takes the last sample, and ends. Call it before the recording is stopped.
  void stop();

 private:
  struct Shared;
  // Of the thread that begins or ends; nullptr: none does.
  [[nodiscard]] std::shared_ptr<Shared> begin();
  [[nodiscard]] std::shared_ptr<Shared> end();

  record::ForkLock lock_;  // held for moments: a fork waits for it
  std::shared_ptr<Shared> running_;
  std::atomic<uint64_t> seen_{0};  // devices, as bits
};

}  // namespace vram::capi
