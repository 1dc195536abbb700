// allocator_settings as flat texts, and the state of the recorder's ring that they contain.
#pragma once

#include "trace/import/torch/collected.hpp"

#include <cstdint>
#include <vector>

namespace vram::trace::torch {

// {"roundup_power2_divisions": {"1": 0}} becomes "roundup_power2_divisions.1" = "0"; values as
// Python prints them.
[[nodiscard]] std::vector<Setting> flatten_settings(Collected& collected);

struct RingFlags {
  std::vector<bool> of_device;
  bool of_all = false;
  uint64_t max_entries = 0;  // 0: unknown

  [[nodiscard]] bool overflowed(uint32_t ordinal, uint64_t entries) const {
    return of_all || (ordinal < of_device.size() && of_device[ordinal]) ||
           (max_entries != 0 && entries >= max_entries);
  }
};

[[nodiscard]] RingFlags ring_flags(const Collected& collected);

}  // namespace vram::trace::torch
