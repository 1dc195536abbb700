// The machine that the fake of ROCm SMI shows, as a scenario file describes it (README.md has the
// format), and what each function begins with. Any thread; part of tests/fake_rocm_smi.
#pragma once

#include "gpu/rocm/rocm_smi.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vram::fake_rocm_smi {

struct Faults {
  std::map<std::string, uint32_t> answers;
  std::map<std::string, uint32_t> hangs_ms;
  std::map<std::string, uint32_t> throws;
};

struct Device {
  uint64_t pci_id = 0;
  std::optional<std::string> market_name;
  std::optional<std::string> name;
  std::optional<gpu::rocm::ErrorCount> ecc;
  std::optional<std::string> pages;
  Faults faults;
};

struct Machine {
  std::vector<Device> devices;
  Faults faults;
};

struct Call {
  gpu::rocm::RsmiStatus answer = gpu::rocm::kSuccess;
  Machine machine;
  const Device* device = nullptr;  // of the machine
};

// Hangs or throws where it is to; writes the call down.
[[nodiscard]] Call begin(const char* function);
[[nodiscard]] Call begin(const char* function, uint32_t index);

// The value, or with FAKE_ROCM_CHAOS now and then another.
[[nodiscard]] uint64_t odd(uint64_t value);
[[nodiscard]] bool is_chaos();
void count_open(int change);

}  // namespace vram::fake_rocm_smi
