#include "replay/peers/caching_base.hpp"

#include <algorithm>
#include <span>

namespace vram::replay {

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
