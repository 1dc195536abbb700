// What each function of the fake begins with: which machine there is now, which device is meant,
// what the environment and the scenario want the function to answer. Any thread.
#pragma once

#include "gpu/nvml/nvml_types.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vram::fake_nvml {

// The machine that the fake library shows, as a scenario file describes it (README.md has the
// format). A plain value.
struct Process {
  std::string kind;  // "compute", "graphics", "mps"
  uint32_t pid = 0;
  uint64_t used_bytes = 0;
  uint32_t gpu_instance = UINT32_MAX;
  uint32_t compute_instance = UINT32_MAX;
  uint32_t busy_percent = UINT32_MAX;  // not sampled
};

struct Part {  // of MIG; its place in the list is its number
  uint32_t gpu_instance = 0;
  uint32_t compute_instance = 0;
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;
  std::string profile;
};

struct Xid {
  uint64_t number = 0;
  uint32_t gpu_instance = UINT32_MAX;
  uint32_t compute_instance = UINT32_MAX;
};

// What is to go wrong with a function: its answer, and how long it takes.
using Faults = std::map<std::string, uint64_t>;

struct Device {
  std::map<std::string, std::vector<uint64_t>> figures;  // not stated: not supported
  std::map<std::string, std::string> texts;
  std::vector<Process> processes;
  std::vector<Part> parts;
  std::vector<Xid> xids;
  Faults answers;
  Faults hangs_ms;
};

struct Machine {
  bool is_loaded = true;
  std::string version = "550.54.15";
  std::vector<Device> devices;
  Faults answers;
  Faults hangs_ms;
};

// Aborts with a word on stderr where a line is not understood: a test is wrong, not the code.
[[nodiscard]] Machine parse(const std::string& scenario);

// The scenario file's as it is now, or without one the machine of README.md.
[[nodiscard]] const std::string& standard_scenario();

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

template <typename Value>
gpu::nvml::NvmlReturn write(const Call& call, const char* figure, size_t at, Value* out) {
  if (!call.is_fine()) return call.answer;
  const uint64_t* const value = call.figure(figure, at);
  if (value == nullptr) return gpu::nvml::kNotSupported;
  *out = static_cast<Value>(odd(*value));
  return gpu::nvml::kSuccess;
}

struct Sizes {
  uint64_t total = 0;
  uint64_t used = 0;
  uint64_t reserved = 0;
  bool is_reserved_in_used = false;
};

inline bool has_sizes(const Call& call, Sizes& sizes) {
  if (call.part != nullptr) {
    sizes = {call.part->total_bytes, call.part->used_bytes, 0, false};
    return true;
  }
  const auto or_zero = [&](const char* key) {
    const uint64_t* const value = call.figure(key);
    return value == nullptr ? 0 : *value;
  };
  sizes = {or_zero("total"), or_zero("used"), or_zero("reserved"),
           or_zero("reserved-in-used") == 1};
  return call.figure("total") != nullptr;
}

inline gpu::nvml::NvmlReturn write_pci(const Call& call, gpu::nvml::PciInfo& pci) {
  (void)write(call, "pci", 1, &pci.bus);
  (void)write(call, "pci", 2, &pci.device);
  return write(call, "pci", 0, &pci.domain);
}

// As the true one does: how many there are, and an error where there is no room for all.
inline gpu::nvml::NvmlReturn write_retired_pages(const Call& call, uint32_t cause, unsigned& count,
                                                 uint64_t* addresses) {
  const unsigned room = count;
  const gpu::nvml::NvmlReturn answer = write(call, "retired", cause, &count);
  if (answer != gpu::nvml::kSuccess) return answer;
  if (count > room) return gpu::nvml::kInsufficientSize;
  for (unsigned page = 0; page < count; ++page) addresses[page] = page * uint64_t{0x10000};
  return answer;
}

}  // namespace vram::fake_nvml
