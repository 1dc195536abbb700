// What functions of the fake write: a device's figures as the scenario has them. Part of
// tests/fake_nvml.
#pragma once

#include "call.hpp"
#include "gpu/nvml/nvml_types.hpp"

#include <cstdint>

namespace vram::fake_nvml {

template <typename Value>
gpu::nvml::NvmlReturn write(const Call& call, const char* figure, size_t at, Value* out) {
  if (!call.is_fine()) return call.answer;
  const uint64_t* const value = call.figure(figure, at);
  if (value == nullptr) return gpu::nvml::kNotSupported;
  *out = odd(static_cast<Value>(*value));
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
