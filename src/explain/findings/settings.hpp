// AllocatorSettings: the producer's settings as values. Unset and unknown are the allocator's
// defaults.
#pragma once

#include "trace/trace.hpp"

#include <cstdint>
#include <optional>

namespace vram::explain {

struct AllocatorSettings {
  bool expandable_segments = false;
  std::optional<uint64_t> max_split_size_bytes;  // unset: blocks of any size are split
  double garbage_collection_threshold = 0;       // 0: off
  uint64_t largest_roundup_divisions = 0;  // 2 or more: sizes are rounded up towards powers of two
};

[[nodiscard]] AllocatorSettings read_settings(const trace::Trace& trace);

}  // namespace vram::explain
