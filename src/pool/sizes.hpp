// Sizes: what a request is rounded to. Small requests go to classes, so that what one leaves the
// next can use: eight in each power of two, at most 1/8 lost and never less than 512 bytes apart.
// Larger ones are rounded to 512 bytes and packed without regard to pages. Pure.
#pragma once

#include "base/bytes.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace vram::pool {

inline constexpr uint64_t kAlignmentBytes = 512;
inline constexpr uint64_t kSmallBytes = kMiB;                       // up to here a request is small
inline constexpr uint64_t kMaxAllocationBytes = uint64_t{1} << 45;  // no device is larger

// Of 0 bytes, too, there is one unit. bytes are at most kMaxAllocationBytes.
[[nodiscard]] constexpr uint64_t round_size(uint64_t bytes) {
  bytes = std::max<uint64_t>(bytes, 1);
  if (bytes > kSmallBytes) return round_up(bytes, kAlignmentBytes);
  return round_up(bytes, std::max(std::bit_ceil(bytes) / 16, kAlignmentBytes));
}

}  // namespace vram::pool
