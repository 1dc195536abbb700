// Telemetry: what a machine's GPUs say about themselves, as values. The seam between the libraries
// that know (nvml/) and everybody who shows or judges it. Unknown is not zero: whatever a library,
// a driver or a permission may withhold is optional, and stays so all the way to the screen.
//
// Sizes are bytes. Nothing here waits longer than the library's own call does.
#pragma once

#include "base/result.hpp"

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::gpu {

// Where all four are known, total = used + reserved + free; without reserved (the driver's own), it
// is part of used.
struct DeviceMemory {
  std::optional<uint64_t> total_bytes;
  std::optional<uint64_t> used_bytes;
  std::optional<uint64_t> free_bytes;
  std::optional<uint64_t> reserved_bytes;
};

struct DeviceProcess {
  uint32_t pid = 0;  // the host's: in a container there may be no such process
  bool is_compute = false;
  bool is_graphics = false;
  std::optional<uint64_t> used_bytes;
  std::optional<uint32_t> gpu_instance;  // of MIG
  std::optional<uint32_t> compute_instance;
};

// A device at one moment.
struct DeviceSample {
  uint32_t index = 0;
  std::optional<std::string> name;
  std::optional<std::string> uuid;
  DeviceMemory memory;
  std::optional<uint32_t> busy_percent;         // of the time of the library's last sample
  std::optional<uint32_t> memory_busy_percent;  // of the time it was read or written, not of bytes
  std::optional<std::vector<DeviceProcess>> processes;  // by pid
  std::optional<std::string> trouble;                   // why the device said nothing, in one line
};

template <typename T>
concept Telemetry = requires(const T& source, uint32_t index) {
  { source.device_count() } -> std::same_as<Result<uint32_t>>;
  // Of a device that fails, everything but the index and the trouble is unknown.
  { source.sample(index) } -> std::same_as<DeviceSample>;
};

}  // namespace vram::gpu
