#include "pool/blocks.hpp"

#include <algorithm>

namespace vram::pool {

BlockId Blocks::at(Address address) const {
  NodeId node = kNoNode;
  if (address - stitches_.base() < stitches_.reserved_bytes()) {
    const StitchId stitch = stitches_.at(address);
    if (stitch != kNoStitch && !stitches_[stitch].is_idle()) node = stitches_[stitch].parts.front();
  } else {
    node = arena_.at(address);
  }
  if (node == kNoNode || node >= blocks_.size()) return {};
  const Block& block = blocks_[node];
  if (!block.is_live || block.is_held) return {};
  if (address < block.address || address - block.address >= block.size_bytes) return {};
  return {node, block.serial};
}

NodeId Blocks::first_part_of(NodeId part) const {
  if (part < blocks_.size() && blocks_[part].is_live) return part;
  for (StitchId id = 0; id < stitches_.limit(); ++id) {
    const std::vector<NodeId>& parts = stitches_[id].parts;
    if (std::ranges::find(parts, part) != parts.end()) return parts.front();
  }
  return kNoNode;  // it is lent
}

Holders Blocks::find_holders() const {
  HolderSearch search;
  const auto for_each_live = [this](auto use) {
    for (const Block& block : blocks_) {
      if (block.is_live && !block.is_held) use(block.size_bytes);
    }
  };
  for_each_live([&](uint64_t bytes) { search.weigh(bytes); });
  for_each_live([&](uint64_t bytes) { search.count(bytes); });
  return search.most();
}

void Blocks::forget_stream(StreamIndex stream) {
  for (Block& block : blocks_) {
    if (block.stream == stream) block.stream = kNoStream;
  }
}

}  // namespace vram::pool
