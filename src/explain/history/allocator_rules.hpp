// AllocatorRules: the arithmetic of PyTorch's caching allocator that decides how large a block is:
// how requests round, and when what remains of a free block is split off. From the settings a
// recording carries; the defaults otherwise.
#pragma once

#include "base/bytes.hpp"
#include "trace/trace.hpp"

#include <array>
#include <cstdint>
#include <limits>

namespace vram::explain {

inline constexpr uint64_t kMinBlockBytes = 512;
inline constexpr uint64_t kSmallRequestBytes =
    kMiB;  // up to here a request is served by the small pool
inline constexpr uint64_t kSmallSegmentBytes = 2 * kMiB;  // the only segment size of the small pool
inline constexpr uint64_t kLargestBelievableBytes = uint64_t{1} << 60;  // torch refuses more

struct AllocatorRules {
  // roundup_power2_divisions, one entry for each power of two from 1 MiB to 32 GiB; 0 and 1 mean
  // off.
  std::array<uint64_t, 16> divisions{};
  bool has_divisions = false;
  uint64_t max_split_bytes = std::numeric_limits<uint64_t>::max();
  uint64_t large_granule_bytes =
      20 * kMiB;  // expandable segments map and unmap the large pool in these

  bool never_splits = false;  // torch's pinned-memory allocator hands out whole segments

  [[nodiscard]] uint64_t round(uint64_t requested_bytes) const {
    if (has_divisions) return round_to_divisions(requested_bytes);
    if (requested_bytes <= kMinBlockBytes) return kMinBlockBytes;
    return (requested_bytes + kMinBlockBytes - 1) & ~(kMinBlockBytes - 1);
  }

  // Is `remaining` split off when a block of `rounded` bytes is cut from the low end of a free one?
  [[nodiscard]] bool splits(uint64_t rounded, uint64_t remaining, bool small_or_expandable) const {
    if (never_splits) return false;
    if (small_or_expandable) return remaining >= kMinBlockBytes;
    return rounded < max_split_bytes && remaining > kSmallRequestBytes;
  }

 private:
  [[nodiscard]] uint64_t round_to_divisions(uint64_t requested_bytes) const;
};

[[nodiscard]] AllocatorRules rules_of(const trace::Trace& trace, trace::DeviceKind kind);

}  // namespace vram::explain
