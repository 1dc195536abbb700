// The nanoseconds of a second: unsigned for durations and the monotonic clock, signed for
// differences and for times since 1970.
#pragma once

#include <cstdint>

namespace vram {

inline constexpr uint64_t kSecondNs = 1'000'000'000;
inline constexpr int64_t kSignedSecondNs = kSecondNs;

}  // namespace vram
