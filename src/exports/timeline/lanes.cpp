#include "exports/timeline/lanes.hpp"

#include <algorithm>
#include <cstddef>

namespace vram::exports {
namespace {

using explain::History;
using explain::Lifetime;

// Do the blocks of at least this size fit?
bool fits(const History& history, uint64_t min_bytes, uint32_t max_lanes, uint64_t max_blocks,
          std::vector<int32_t>& change) {
  std::ranges::fill(change, 0);
  uint64_t blocks = 0;
  for (const Lifetime& life : history.lifetimes) {
    if (life.block_bytes < min_bytes) continue;
    if (++blocks > max_blocks) return false;
    const size_t begin = life.alloc_event == explain::kBeforeRecording ? 0 : life.alloc_event;
    ++change[begin];
    if (life.free_completed_event != explain::kNever) --change[life.free_completed_event];
  }
  int64_t live = 0;
  for (const int32_t each : change) {
    live += each;
    if (live > int64_t{max_lanes}) return false;
  }
  return true;
}

}  // namespace

uint64_t smallest_drawn_bytes(const History& history, uint64_t events, uint32_t max_lanes,
                              uint64_t max_blocks) {
  std::vector<int32_t> change(static_cast<size_t>(events) + 1);
  if (fits(history, 0, max_lanes, max_blocks, change)) return 0;
  std::vector<uint64_t> sizes;
  sizes.reserve(history.lifetimes.size());
  for (const Lifetime& life : history.lifetimes) sizes.push_back(life.block_bytes);
  std::ranges::sort(sizes);
  const auto repeated = std::ranges::unique(sizes);
  sizes.erase(repeated.begin(), repeated.end());
  const auto found = std::ranges::partition_point(
      sizes, [&](uint64_t size) { return !fits(history, size, max_lanes, max_blocks, change); });
  return found == sizes.end() ? sizes.back() + 1 : *found;
}

}  // namespace vram::exports
