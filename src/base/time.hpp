// The nanoseconds of a second: unsigned for durations and the monotonic clock, signed for
// differences and for times since 1970. Also arithmetic with times of files, which may be any
// numbers. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vram {

inline constexpr uint64_t kSecondNs = 1'000'000'000;
inline constexpr int64_t kSignedSecondNs = kSecondNs;

// 146 years. The sum and the difference of two durations up to this fit 64 bits.
inline constexpr int64_t kMaxDurationNs = INT64_MAX / 2;

// A longer duration, in either direction, is limited to kMaxDurationNs.
[[nodiscard]] constexpr int64_t nanoseconds_between(int64_t begin_ns, int64_t end_ns) {
  int64_t difference_ns = 0;
  if (__builtin_sub_overflow(end_ns, begin_ns, &difference_ns))
    return end_ns < begin_ns ? -kMaxDurationNs : kMaxDurationNs;
  return std::clamp(difference_ns, -kMaxDurationNs, kMaxDurationNs);
}

// Of durations up to kMaxDurationNs; so is the sum.
[[nodiscard]] constexpr int64_t sum_of_nanoseconds(int64_t a_ns, int64_t b_ns) {
  return std::clamp(a_ns + b_ns, -kMaxDurationNs, kMaxDurationNs);
}

}  // namespace vram
