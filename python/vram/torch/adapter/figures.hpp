// Figures: a pool's statistics and blocks in PyTorch's own structs.
//
// PyTorch counts small (up to 1 MiB) and large requests apart; the pool has one arena for both, so
// its figures count as "large_pool", and aggregate = "small_pool" + "large_pool" holds. Where
// memory of both allocators was in use, a peak is the sum of two peaks: the true one may be lower.
// The pool's free memory can be given back, so none of it is "inactive_split".
#pragma once

#include <algorithm>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cstdint>
#include <vector>
#include <vram/vram.h>

namespace vram_torch {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;

inline vram_stats stats_of(vram_pool* pool) {
  vram_stats stats{};
  stats.struct_bytes = sizeof stats;
  TORCH_CHECK(vram_get_stats(pool, &stats) == VRAM_OK,
              "vram: the library is of another version than its adapter; ",
              "empty the folder of compiled adapters (~/.cache/vram) and start again");
  return stats;
}

template <class StatArray>
void add(StatArray& to, const vram_stat& from) {
  constexpr size_t kAggregate = 0;
  constexpr size_t kLargePool = 2;
  for (const size_t type : {kAggregate, kLargePool}) {
    to[type].current += static_cast<int64_t>(from.current);
    to[type].peak += static_cast<int64_t>(from.peak);
    to[type].allocated += static_cast<int64_t>(from.allocated);
    to[type].freed += static_cast<int64_t>(from.freed);
  }
}

template <class DeviceStats>
void add(DeviceStats& to, const vram_stats& from) {
  add(to.allocation, from.allocation);
  add(to.active, from.allocation);  // the pool counts blocks until they are freed
  add(to.allocated_bytes, from.allocated_bytes);
  add(to.active_bytes, from.active_bytes);
  add(to.requested_bytes, from.requested_bytes);
  add(to.reserved_bytes, from.reserved_bytes);
  to.num_alloc_retries += static_cast<int64_t>(from.num_alloc_retries);
  to.num_ooms += static_cast<int64_t>(from.num_ooms);
  to.num_device_alloc += static_cast<int64_t>(from.num_device_alloc);
  to.num_device_free += static_cast<int64_t>(from.num_device_free);
}

// Parts of the pool in order of address become segments: one for each range without a gap.
class SegmentsOfPool {
 public:
  using Segment = std::decay_t<decltype(torch_cuda::SnapshotInfo::segments.front())>;

  explicit SegmentsOfPool(int device) : device_(device) {}

  void take(const vram_part& part) {
    if (segments_.empty() || segments_.back().address + segments_.back().total_size != part.address)
      start(part);
    Segment& segment = segments_.back();
    segment.total_size += part.size_bytes;
    segment.blocks.emplace_back();
    auto& block = segment.blocks.back();
    block.size = part.size_bytes;
    if (!part.is_live) return;
    block.requested_size = part.requested_bytes;
    block.active = true;
    block.allocated =
        part.is_held == 0;  // as PyTorch shows a block that is freed and still in use by a stream
    if (block.allocated) segment.allocated_size += part.size_bytes;
    segment.active_size += part.size_bytes;
    segment.requested_size += part.requested_bytes;
  }

  void append_to(std::vector<Segment>& all) {
    all.insert(all.end(), segments_.begin(), segments_.end());
  }

 private:
  void start(const vram_part& part) {
    segments_.emplace_back();
    Segment& segment = segments_.back();
    segment.device = static_cast<c10::DeviceIndex>(device_);
    segment.address = part.address;
    segment.stream = static_cast<decltype(segment.stream)>(part.stream);
    segment.is_large = true;
    segment.is_expandable = true;
  }

  int device_;
  std::vector<Segment> segments_;
};

}  // namespace vram_torch
