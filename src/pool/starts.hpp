// Starts: finds the node that holds an address. For each 2 MiB of addresses the first node that
// begins there, and a bitmap of where any does. Used by Arena, which chains the nodes; one thread
// at a time; allocates when addresses reach farther than ever before.
#pragma once

#include "pool/node.hpp"

#include <cstdint>
#include <vector>

namespace vram::pool {

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
