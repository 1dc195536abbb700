#include "replay/peers/block_cache.hpp"

#include <algorithm>

namespace vram::replay {

BlockCache::BlockCache(std::span<const uint64_t> stream_handles, uint32_t block_count)
    : stream_handles_(stream_handles), node_of_block_(block_count, kNoNode) {
  groups_.resize(2);
  group_ids_.set(0, 0);
  group_ids_.set(1, 1);
}

uint32_t BlockCache::add_lane(uint64_t key) {
  const auto id = static_cast<uint32_t>(lanes_.size());
  const bool is_small = (key & 1) != 0;
  const uint64_t stream = (key >> 1) & 0xffff;
  const uint64_t group_key = (key >> 17 << 1) | (is_small ? 1 : 0);
  uint32_t group = group_ids_.find(group_key);
  if (group == AddressMap::kNone) {
    group = static_cast<uint32_t>(groups_.size());
    groups_.emplace_back();
    group_ids_.set(group_key, group);
  }
  lane_ids_.set(key, id);
  Lane& lane = lanes_.emplace_back();
  lane.stream_handle = stream < stream_handles_.size() ? stream_handles_[stream] : stream;
  lane.group = group;
  lane.pool = static_cast<trace::PoolId>(key >> 17);
  lane.is_small = is_small;
  std::vector<uint32_t>& order = groups_[group].lanes;
  const auto place = std::ranges::upper_bound(
      order, lane.stream_handle, {}, [&](uint32_t other) { return lanes_[other].stream_handle; });
  order.insert(place, id);
  return id;
}

NodeId BlockCache::new_node() {
  if (unused_.empty()) {
    nodes_.emplace_back();
    return static_cast<NodeId>(nodes_.size() - 1);
  }
  const NodeId id = unused_.back();
  unused_.pop_back();
  return id;
}

// Copied once, and then changed where it is: a copy of what was just written waits for the writes.
NodeId BlockCache::split(NodeId id, uint64_t size_bytes) {
  const NodeId upper_id = new_node();
  Node& lower = nodes_[id];
  Node& upper = nodes_[upper_id];
  upper = lower;
  upper.address += size_bytes;
  upper.size_bytes -= size_bytes;
  upper.prev = id;
  lower.size_bytes = size_bytes;
  if (lower.next != kNoNode) nodes_[lower.next].prev = upper_id;
  lower.next = upper_id;
  return upper_id;
}

void BlockCache::merge(NodeId id, NodeId neighbour) {
  if (neighbour == kNoNode) return;
  Node& node = nodes_[id];
  const Node& other = nodes_[neighbour];
  if (other.state != NodeState::kFree || other.is_mapped != node.is_mapped) return;
  if (other.lane != node.lane) return;
  if (other.is_mapped) {
    take_free(neighbour);
  } else {
    lanes_[other.lane].unmapped.erase(other.address);
  }
  if (node.prev == neighbour) {
    node.address = other.address;
    node.prev = other.prev;
    if (node.prev != kNoNode) nodes_[node.prev].next = id;
  } else {
    node.next = other.next;
    if (node.next != kNoNode) nodes_[node.next].prev = id;
  }
  node.size_bytes += other.size_bytes;
  drop_node(neighbour);
}

void BlockCache::hand_out(NodeId id, uint32_t block, uint64_t requested_bytes) {
  Node& node = nodes_[id];
  node.state = NodeState::kAllocated;
  node.requested_bytes = requested_bytes;
  node.block = block;
  node_of_block_[block] = id;
  usage_.requested_bytes += requested_bytes;
  usage_.allocated_bytes += node.size_bytes;
  usage_.active_bytes += node.size_bytes;
}

void BlockCache::forget_block(NodeId id) {
  Node& node = nodes_[id];
  usage_.active_bytes -= node.size_bytes;
  usage_.requested_bytes -= node.requested_bytes;
  node_of_block_[node.block] = kNoNode;
  pending_count_ -= node.state == NodeState::kPending ? 1 : 0;
  node.state = NodeState::kFree;
}

void BlockCache::put_back(NodeId id) {
  Node& node = nodes_[id];
  node.state = NodeState::kFree;
  merge(id, node.prev);
  merge(id, node.next);
  put_free(id);
}

void BlockCache::set_pending(NodeId id) {
  nodes_[id].state = NodeState::kPending;
  ++pending_count_;
  constexpr size_t kWorthTidying = 1024;
  if (pending_.size() > kWorthTidying && pending_.size() > 4 * pending_count_) {
    std::erase_if(pending_, [&](NodeId p) { return nodes_[p].state != NodeState::kPending; });
  }
  pending_.push_back(id);
}

std::vector<NodeId> BlockCache::free_nodes(uint32_t lane) const {
  std::vector<NodeId> list;
  const FreeSet& free = lanes_[lane].free;
  list.reserve(free.size());
  for (auto at = free.begin(); !free.is_end(at); at = free.next(at)) list.push_back(free[at].node);
  return list;
}

std::vector<NodeId> BlockCache::free_nodes(const LaneGroup& group) const {
  std::vector<NodeId> list;
  for (const uint32_t lane : group.lanes) {
    const std::vector<NodeId> nodes = free_nodes(lane);
    list.insert(list.end(), nodes.begin(), nodes.end());
  }
  return list;
}

}  // namespace vram::replay
