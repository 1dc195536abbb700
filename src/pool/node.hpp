// Node: a part of the arena; and the indexes over its nodes: FreeIndex by size, Starts by address.
// Used by Arena; one thread at a time.
//
// FreeIndex: the free nodes of one lane and stream by size, for the best fit: the smallest that
// suffices, and of equal ones the lowest address. Bins of a sixteenth of a power of two, each a
// list in order, and a bitmap over the bins: no allocation, no search but within one bin. The links
// are in the nodes.
#pragma once

#include "pool/sizes.hpp"
#include "pool/stamp.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace vram::pool {

// Node: a part of the arena, free or live, and what is known about it. Nodes of adjoining memory
// are chained in order of address; free ones are in a FreeIndex, too. A value, and a line of
// the cache; kept by Arena.
using NodeId = uint32_t;
inline constexpr NodeId kNoNode = std::numeric_limits<NodeId>::max();

using StreamIndex = uint32_t;                // the pool's own numbering
inline constexpr StreamIndex kNoStream = 0;  // nothing is queued any more that uses it

// Memory kept apart, so that what lives long does not lie among what lives short.
enum class Lane : uint8_t { kSmall, kLarge };
inline constexpr uint32_t kLaneCount = 2;

[[nodiscard]] constexpr Lane lane_of(uint64_t requested_bytes) {
  return requested_bytes > kSmallBytes ? Lane::kLarge : Lane::kSmall;
}

enum class NodeState : uint8_t { kUnused, kFree, kLive };

struct alignas(64) Node {
  Address address = 0;
  uint64_t size_bytes = 0;
  Stamp stamp = 0;  // of the stream's work that used it last
  NodeId prev = kNoNode;
  NodeId next = kNoNode;
  NodeId bin_prev = kNoNode;
  NodeId bin_next = kNoNode;
  StreamIndex stream = kNoStream;
  Lane lane = Lane::kLarge;
  NodeState state = NodeState::kUnused;
};

class FreeIndex {
 public:
  FreeIndex() { heads_.fill(kNoNode); }
  void insert(std::vector<Node>& nodes, NodeId id);
  void erase(std::vector<Node>& nodes, NodeId id);
  // kNoNode where none suffices.
  [[nodiscard]] NodeId best_fit(const std::vector<Node>& nodes, uint64_t bytes) const;

  template <typename Visit>
  void for_each(const std::vector<Node>& nodes, Visit visit) const {
    for (uint32_t bin = next_bin(0); bin < kBinCount; bin = next_bin(bin + 1)) {
      for (NodeId id = heads_[bin]; id != kNoNode; id = nodes[id].bin_next) visit(id);
    }
  }

  // The bin of a size in bytes: rises with the size.
  [[nodiscard]] static uint32_t bin_of(uint64_t bytes) {
    const uint64_t units = std::max<uint64_t>(bytes / kAlignmentBytes, 1);
    const auto log2 = static_cast<uint32_t>(std::bit_width(units)) - 1;
    if (log2 < 4) return static_cast<uint32_t>(units);
    const auto sixteenth = static_cast<uint32_t>(units >> (log2 - 4)) & 15;
    return std::min((log2 - 3) * 16 + sixteenth, kBinCount - 1);
  }

 private:
  static constexpr uint32_t kBinCount = 640;
  [[nodiscard]] uint32_t next_bin(uint32_t from) const;  // kBinCount: none

  std::array<NodeId, kBinCount> heads_;
  std::array<uint64_t, kBinCount / 64> used_{};
};

// Starts: finds the node that holds an address. For each 2 MiB of addresses the first node that
// begins there, and a bitmap of where any does. Arena chains the nodes.
// Allocates when addresses reach farther than ever before.
class Starts {
 public:
  void add(const std::vector<Node>& nodes, NodeId id);
  // Before its chain changes.
  void drop(const std::vector<Node>& nodes, NodeId id);
  // The node that begins there or last before; kNoNode where none does.
  [[nodiscard]] NodeId at_or_before(const std::vector<Node>& nodes, Address address) const;

 private:
  void reach(uint64_t granule);
  static constexpr uint32_t kGranuleLog2 = 21;
  [[nodiscard]] NodeId last_before(uint64_t granule) const;

  uint64_t base_ = 0;  // granule of the lowest address so far
  std::vector<NodeId> first_;
  std::vector<uint64_t> used_;
};

}  // namespace vram::pool
