// What each function of the fake begins with: which machine there is now, which device is meant,
// what the environment and the scenario want the function to answer. Any thread.
#pragma once

#include "gpu/nvml/nvml_types.hpp"
#include "machine.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vram::fake_nvml {

struct Call {
  gpu::nvml::NvmlReturn answer = gpu::nvml::kSuccess;
  std::shared_ptr<const Machine> machine;
  const Device* device = nullptr;
  const Part* part = nullptr;  // of the device
  uint32_t index = 0;          // of the device

  [[nodiscard]] bool is_fine() const { return answer == gpu::nvml::kSuccess; }
  // The device's, or null: not stated, or asked of a part.
  [[nodiscard]] const uint64_t* figure(const std::string& key, size_t at = 0) const;
};

// Hangs where it is to; counts the call.
[[nodiscard]] Call begin(const char* function);
[[nodiscard]] Call begin(const char* function, gpu::nvml::nvmlDevice handle);

// A handle of a device, or of a part: the parts' numbers begin with 1.
[[nodiscard]] gpu::nvml::nvmlDevice handle_of(uint32_t index, uint32_t part = 0);

[[nodiscard]] std::string environment(const char* name);
void count_open(int change);
[[nodiscard]] std::shared_ptr<const Machine> machine_now();

// The value, or with FAKE_NVML_CHAOS now and then another.
[[nodiscard]] uint64_t odd(uint64_t value);
[[nodiscard]] uint32_t odd(uint32_t value);
// One time in `many`, with FAKE_NVML_CHAOS; else never.
[[nodiscard]] bool is_odd(uint32_t many);

}  // namespace vram::fake_nvml
