#include "replay/peers/caching_base.hpp"

#include <algorithm>
#include <span>

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

void CachingBase::free(uint32_t block, int64_t time_ns) {
  static_cast<void>(time_ns);
  const NodeId node = cache_.node_of(block);
  if (node == kNoNode) return;
  cache_.forget_tensor(node);
  cache_.complete(node);
}

void CachingBase::free_later(uint32_t block, int64_t time_ns) {
  static_cast<void>(time_ns);
  const NodeId node = cache_.node_of(block);
  if (node == kNoNode) return;
  cache_.forget_tensor(node);
  cache_.set_pending(node);
}

void CachingBase::complete(uint32_t block, int64_t time_ns) {
  static_cast<void>(time_ns);
  const NodeId node = cache_.node_of(block);
  if (node != kNoNode) cache_.complete(node);
}

NodeId CachingBase::add_segment(uint64_t address, uint64_t bytes, uint32_t lane) {
  cache_.add_reserved(bytes);
  Node node;
  node.address = address;
  node.size_bytes = bytes;
  node.lane = lane;
  return cache_.add_node(node);
}

NodeId CachingBase::take_initial_segment(const InitialSegment& segment) {
  const uint64_t address = segments_.take_initial(segment);
  if (address == 0) return kNoNode;
  return add_segment(address, segment.size_bytes,
                     cache_.lane_for(segment.pool, segment.stream, segment.is_small));
}

void CachingBase::place_initial_blocks(NodeId node, const Program& program,
                                       const InitialSegment& segment, uint32_t& next) {
  const std::span<const InitialBlock> blocks = program.initial_blocks;
  const uint64_t end = segment.address + segment.size_bytes;
  uint64_t at = segment.address;
  for (; next < blocks.size() && blocks[next].address < end; ++next) {
    const InitialBlock& block = blocks[next];
    if (block.address > at) {
      const NodeId upper = cache_.split(node, block.address - at);
      cache_.put_free(node);
      node = upper;
    }
    at = block.address + block.block_bytes;
    const NodeId rest = at < end ? cache_.split(node, block.block_bytes) : kNoNode;
    cache_.hand_out(node, next, block.requested_bytes);
    if (block.is_pending) {
      cache_.forget_tensor(node);
      cache_.set_pending(node);
    }
    node = rest;
  }
  if (node != kNoNode) cache_.put_free(node);
}

NodeId CachingBase::take_segment(uint64_t bytes, uint32_t lane) {
  const uint64_t address = segments_.take(bytes);
  return address != 0 ? add_segment(address, bytes, lane) : kNoNode;
}

void CachingBase::give_back_segment(NodeId id) {
  cache_.take_free(id);
  const Node& node = cache_[id];
  cache_.drop_reserved(node.size_bytes);
  segments_.give_back(node.address, node.size_bytes);
  cache_.drop_node(id);
}

void CachingBase::give_back_segments(const LaneGroup& group) {
  for (const NodeId id : cache_.free_nodes(group)) {
    if (cache_[id].is_whole()) give_back_segment(id);
  }
}

std::vector<NodeId> CachingBase::free_segments(uint32_t lane) {
  std::vector<NodeId> list = cache_.free_nodes(lane);
  std::erase_if(list, [&](NodeId id) { return !cache_[id].is_whole(); });
  std::sort(list.begin(), list.end(),
            [&](NodeId a, NodeId b) { return cache_[a].address < cache_[b].address; });
  return list;
}

NodeId CachingBase::take_best_fit(uint32_t lane, uint64_t size_bytes) {
  FreeSet& free = cache_.lane(lane).free;
  const FreeSet::Cursor at = free.at_least(size_bytes);
  if (free.is_end(at)) return kNoNode;
  const NodeId best = free[at].node;
  free.erase(at);
  return best;
}

}  // namespace vram::replay
