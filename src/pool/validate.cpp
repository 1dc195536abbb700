// What must always hold within and between the pool's stages.
#include "pool/pool.hpp"

namespace vram::pool {

std::string Arena::check_node(NodeId id) const {
  const Node& node = nodes_[id];
  if (node.size_bytes == 0) return "a node has no bytes";
  if (node.next == kNoNode) return {};
  const Node& next = nodes_[node.next];
  if (next.state == NodeState::kUnused || next.prev != id) return "neighbours disagree";
  if (node.address + node.size_bytes != next.address) return "neighbours do not adjoin";
  if (node.state == NodeState::kFree && joins(next, node)) return "free neighbours are not one";
  return {};
}

std::string Arena::check_indexes() const {
  std::vector<bool> is_indexed(nodes_.size());
  uint64_t bytes = 0;
  for (StreamIndex stream = 0; stream < stream_count(); ++stream) {
    for_each_free(stream, [&](NodeId id) {
      is_indexed[id] = nodes_[id].stream == stream;
      bytes += nodes_[id].size_bytes;
    });
  }
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (is_indexed[id] != (nodes_[id].state == NodeState::kFree)) {
      return "what is free is not what is in the indexes";
    }
  }
  return bytes == free_bytes_ ? "" : "free bytes are miscounted";
}

std::string Arena::validate() const {
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (nodes_[id].state == NodeState::kUnused) continue;
    if (std::string wrong = check_node(id); !wrong.empty()) return wrong;
  }
  return check_indexes();
}

// Every byte of the stock is in one node, every live node in one block.
std::string Pool::check_blocks() const {
  uint64_t live_bytes = 0;
  uint64_t node_bytes = 0;
  uint64_t active_bytes = 0;
  for (const Node& node : arena_.nodes()) {
    if (node.state == NodeState::kUnused) continue;
    if (stock_.at(node.address) == kNoHandle) return "a node lies outside the stock";
    node_bytes += node.size_bytes;
    if (node.state == NodeState::kLive) live_bytes += node.size_bytes;
  }
  for (NodeId id = 0; id < blocks_.all().size(); ++id) {
    const Blocks::Block& block = blocks_[id];
    if (!block.is_live) continue;
    active_bytes += block.size_bytes;
    if (arena_[id].state != NodeState::kLive) return "a block's node is not live";
    uint64_t bytes = block.stitch == kNoStitch ? arena_[id].size_bytes : 0;
    if (block.stitch != kNoStitch) {
      for (const NodeId part : stitches_[block.stitch].parts) bytes += arena_[part].size_bytes;
    }
    if (bytes != block.size_bytes) return "a block is not as large as its parts";
  }
  if (node_bytes != stock_.bytes()) return "nodes do not cover the stock";
  if (live_bytes != active_bytes + leases_.bytes()) return "live nodes are not those of the blocks";
  if (active_bytes != stats_.active_bytes.current) return "active bytes are miscounted";
  if (stock_.bytes() != stats_.reserved_bytes.current) return "reserved bytes are miscounted";
  return {};
}

bool Pool::validate(std::string* why) const {
  std::string wrong = arena_.validate();
  if (wrong.empty()) wrong = stock_.validate();
  if (wrong.empty()) wrong = stitches_.validate();
  if (wrong.empty()) wrong = check_blocks();
  if (why != nullptr) *why = wrong;
  return wrong.empty();
}

}  // namespace vram::pool
