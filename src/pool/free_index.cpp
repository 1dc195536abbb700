#include "pool/free_index.hpp"

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

}  // namespace vram::pool
