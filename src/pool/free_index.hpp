// FreeIndex: the free nodes of one lane and stream by size, for the best fit: the smallest that
// suffices, and of equal ones the lowest address. Bins of a sixteenth of a power of two, each a
// list in order, and a bitmap over the bins: no allocation, no search but within one bin. The links
// are in the nodes. Used by Arena; one thread at a time.
#pragma once

#include "pool/node.hpp"
#include "pool/sizes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace vram::pool {

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

}  // namespace vram::pool
