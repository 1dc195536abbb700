#include "pool/starts.hpp"

#include <algorithm>
#include <bit>

namespace vram::pool {

// Homes grow upwards from the first address; segments come where the driver puts them.
void Starts::reach(uint64_t granule) {
  if (first_.empty()) base_ = granule;
  if (granule >= base_) return;
  const uint64_t words = (base_ - granule + 63) / 64;
  first_.insert(first_.begin(), words * 64, kNoNode);
  used_.insert(used_.begin(), words, 0);
  base_ -= words * 64;
}

void Starts::add(const std::vector<Node>& nodes, NodeId id) {
  reach(nodes[id].address >> kGranuleLog2);
  const uint64_t granule = (nodes[id].address >> kGranuleLog2) - base_;
  if (granule >= first_.size()) {
    first_.resize(granule + 1, kNoNode);
    used_.resize(granule / 64 + 2);  // one more, to look down from
  }
  NodeId& first = first_[granule];
  if (first == kNoNode || nodes[id].address < nodes[first].address) first = id;
  used_[granule / 64] |= uint64_t{1} << (granule % 64);
}

void Starts::drop(const std::vector<Node>& nodes, NodeId id) {
  const uint64_t granule = (nodes[id].address >> kGranuleLog2) - base_;
  if (first_[granule] != id) return;
  const NodeId next = nodes[id].next;
  const bool is_here = next != kNoNode && (nodes[next].address >> kGranuleLog2) - base_ == granule;
  first_[granule] = is_here ? next : kNoNode;
  if (!is_here) used_[granule / 64] &= ~(uint64_t{1} << (granule % 64));
}

NodeId Starts::at_or_before(const std::vector<Node>& nodes, Address address) const {
  const uint64_t granule = (address >> kGranuleLog2) - base_;
  NodeId id = granule < first_.size() ? first_[granule] : kNoNode;
  if (id == kNoNode || nodes[id].address > address) {
    id = last_before(std::min<uint64_t>(granule, first_.size()));
  }
  if (id == kNoNode) return id;
  for (NodeId next = nodes[id].next; next != kNoNode && nodes[next].address <= address;
       next = nodes[id].next) {
    id = next;
  }
  return id;
}

// The first node of the nearest granule below that has one.
NodeId Starts::last_before(uint64_t granule) const {
  if (used_.empty()) return kNoNode;
  uint64_t word = granule / 64;
  uint64_t bits = used_[word] & ((uint64_t{1} << (granule % 64)) - 1);
  while (bits == 0) {
    if (word == 0) return kNoNode;
    bits = used_[--word];
  }
  return first_[word * 64 + 63 - static_cast<uint64_t>(std::countl_zero(bits))];
}

}  // namespace vram::pool
