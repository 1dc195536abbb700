// What a recording of vram's own pool says and shows: how its requests round, and which memory of a
// recorded process is its. Pure.
#pragma once

#include "pool/sizes.hpp"
#include "trace/trace.hpp"

#include <algorithm>
#include <cstdint>

namespace vram::replay {

[[nodiscard]] constexpr uint64_t round_as_vram(uint64_t requested_bytes) {
  return pool::round_size(std::min(requested_bytes, pool::kMaxAllocationBytes));
}

// Is the segment whose event has this context the pool's?
[[nodiscard]] inline bool is_of_vram(const trace::Tables& tables, trace::ContextId context) {
  return tables.strings[tables.contexts[context].category] == trace::kVramPool;
}

// Did the pool serve the recorded program (another allocator may have served, too)?
[[nodiscard]] inline bool recorded_vram(const trace::Trace& trace) {
  return std::ranges::any_of(trace.settings, [](const trace::Setting& setting) {
    return setting.key == trace::kAllocatorSetting && setting.value == trace::kVramPool;
  });
}

}  // namespace vram::replay
