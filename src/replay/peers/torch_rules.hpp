// TorchRules: the arithmetic of PyTorch's caching allocator: how requests round, how large their
// segments are, when the rest of a block is split off, which free blocks are too large to take.
// From the settings of PYTORCH_CUDA_ALLOC_CONF (torch_options.hpp). Values; pure; no allocation.
#pragma once

#include "base/bytes.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>

namespace vram::replay {

inline constexpr uint64_t kMinBlockBytes = 512;
inline constexpr uint64_t kSmallRequestBytes = kMiB;  // up to here requests go to the small pool
inline constexpr uint64_t kSmallSegmentBytes = 2 * kMiB;
inline constexpr uint64_t kOwnSegmentBytes =
    10 * kMiB;  // from here a request gets a segment of its size
inline constexpr uint64_t kSegmentGranuleBytes = 2 * kMiB;
inline constexpr uint64_t kMaxRequestBytes = uint64_t{1} << 60;  // PyTorch refuses more
inline constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

struct TorchSettings {
  bool expandable_segments = false;
  uint64_t max_split_bytes = kNoLimit;
  std::optional<uint64_t> max_non_split_rounding_bytes;  // default: the large segment's size
  uint64_t large_segment_bytes = 20 * kMiB;
  double garbage_collection_threshold = 0;  // 0: off
  double memory_fraction = 1;
  // A request beyond the memory fraction fails immediately, without releasing cached memory.
  bool throw_on_oom = false;
  // roundup_power2_divisions, one for each power of two from 1 MiB to 32 GiB; 0 and 1 mean off.
  std::array<uint64_t, 16> divisions{};
  [[nodiscard]] bool has_max_split() const { return max_split_bytes != kNoLimit; }
};

class TorchRules {
 public:
  explicit TorchRules(const TorchSettings& settings);

  [[nodiscard]] uint64_t round(uint64_t requested_bytes) const {
    if (has_divisions_) return round_to_divisions(requested_bytes);
    if (requested_bytes <= kMinBlockBytes) return kMinBlockBytes;
    return (requested_bytes + kMinBlockBytes - 1) & ~(kMinBlockBytes - 1);
  }
  // Of a rounded size.
  [[nodiscard]] uint64_t segment_bytes(uint64_t size_bytes) const {
    if (size_bytes <= kSmallRequestBytes) return kSmallSegmentBytes;
    if (size_bytes < kOwnSegmentBytes) return settings_.large_segment_bytes;
    return (size_bytes + kSegmentGranuleBytes - 1) & ~(kSegmentGranuleBytes - 1);
  }
  [[nodiscard]] bool splits(uint64_t size_bytes, uint64_t rest_bytes, bool is_small) const {
    if (is_small || settings_.expandable_segments) return rest_bytes >= kMinBlockBytes;
    return size_bytes < settings_.max_split_bytes && rest_bytes > kSmallRequestBytes;
  }
  // The best fit is kept for larger requests; nothing else is tried then.
  [[nodiscard]] bool is_too_large(uint64_t size_bytes, uint64_t block_bytes) const {
    if (size_bytes < settings_.max_split_bytes) return block_bytes >= settings_.max_split_bytes;
    return block_bytes >= size_bytes + non_split_rounding_bytes_;
  }
  // What expandable segments map and unmap at a time.
  [[nodiscard]] uint64_t granule_bytes(bool is_small) const {
    return is_small ? kSmallSegmentBytes : settings_.large_segment_bytes;
  }
  [[nodiscard]] const TorchSettings& settings() const { return settings_; }

 private:
  [[nodiscard]] uint64_t round_to_divisions(uint64_t requested_bytes) const;

  TorchSettings settings_;
  uint64_t non_split_rounding_bytes_;
  bool has_divisions_;
};

}  // namespace vram::replay
