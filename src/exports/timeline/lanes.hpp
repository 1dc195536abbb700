// Lanes: slices on one track must nest, and lives of blocks do not, so each block gets a lane that
// no other block occupies at the same time. Internal to timeline/.
#pragma once

#include "explain/history/history.hpp"

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace vram::exports {

// The smallest size such that all blocks of at least this size fit into `max_lanes`, and are at
// most `max_blocks`; 0 if all blocks do. O(n log n).
[[nodiscard]] uint64_t smallest_drawn_bytes(const explain::History& history, uint64_t events,
                                            uint32_t max_lanes, uint64_t max_blocks);

// Gives the lowest free lane.
class Lanes {
 public:
  [[nodiscard]] uint32_t take() {
    if (free_.empty()) return next_++;
    const uint32_t lane = free_.top();
    free_.pop();
    return lane;
  }
  void give_back(uint32_t lane) { free_.push(lane); }

 private:
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> free_;
  uint32_t next_ = 0;
};

}  // namespace vram::exports
