#include "pool/node.hpp"

#include <algorithm>
#include <bit>

namespace vram::pool {
namespace {

bool is_before(const Node& a, const Node& b) {
  return a.size_bytes != b.size_bytes ? a.size_bytes < b.size_bytes : a.address < b.address;
}

}  // namespace

uint32_t FreeIndex::next_bin(uint32_t from) const {
  if (from >= kBinCount) return kBinCount;
  uint32_t word = from / 64;
  uint64_t bits = used_[word] & (~uint64_t{0} << (from % 64));
  while (bits == 0) {
    if (++word == used_.size()) return kBinCount;
    bits = used_[word];
  }
  return word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
}

void FreeIndex::insert(std::vector<Node>& nodes, NodeId id) {
  Node& node = nodes[id];
  const uint32_t bin = bin_of(node.size_bytes);
  NodeId before = kNoNode;
  NodeId after = heads_[bin];
  while (after != kNoNode && is_before(nodes[after], node)) {
    before = after;
    after = nodes[after].bin_next;
  }
  node.bin_prev = before;
  node.bin_next = after;
  (before == kNoNode ? heads_[bin] : nodes[before].bin_next) = id;
  if (after != kNoNode) nodes[after].bin_prev = id;
  used_[bin / 64] |= uint64_t{1} << (bin % 64);
}

void FreeIndex::erase(std::vector<Node>& nodes, NodeId id) {
  const Node& node = nodes[id];
  const uint32_t bin = bin_of(node.size_bytes);
  (node.bin_prev == kNoNode ? heads_[bin] : nodes[node.bin_prev].bin_next) = node.bin_next;
  if (node.bin_next != kNoNode) nodes[node.bin_next].bin_prev = node.bin_prev;
  if (heads_[bin] == kNoNode) used_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
}

NodeId FreeIndex::best_fit(const std::vector<Node>& nodes, uint64_t bytes) const {
  const uint32_t first = bin_of(bytes);
  uint32_t bin = next_bin(first);
  if (bin == first) {
    NodeId id = heads_[bin];
    while (id != kNoNode && nodes[id].size_bytes < bytes) id = nodes[id].bin_next;
    if (id != kNoNode) return id;
    bin = next_bin(first + 1);
  }
  return bin == kBinCount ? kNoNode : heads_[bin];
}

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
