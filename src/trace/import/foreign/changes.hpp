// Changes of memory that a profiler saw, block by block, without segments: on their way into a
// Trace. Internal to foreign/; one thread at a time.
#pragma once

#include "trace/trace.hpp"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::trace {

struct MemoryChange {
  int64_t time_ns = 0;
  uint64_t address = 0;
  uint64_t requested_bytes = 0;
  uint64_t block_bytes = 0;
  StackId stack = 0;
  uint32_t device = 0;
  DeviceKind kind = DeviceKind::kGpu;
  bool is_alloc = true;
};

// By the name of an allocator of TensorFlow or JAX: "GPU_0_bfc" is of GPU 0; all others are of the
// host ("cpu", "gpu_host_bfc", "bfc_cpu_allocator_for_gpu").
[[nodiscard]] std::pair<DeviceKind, uint32_t> device_of_allocator(std::string_view name);

// Adds devices and events. Changes of a device are in order. Each block is a segment of its own, so
// that nothing is assumed about its allocator, which the settings call unknown.
void place_changes(std::vector<MemoryChange> changes, Trace& trace);

}  // namespace vram::trace
