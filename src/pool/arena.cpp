#include "pool/arena.hpp"

#include "base/result.hpp"
#include "pool/sizes.hpp"

#include <algorithm>

namespace vram::pool {
namespace {

// No stream has such a handle.
constexpr StreamHandle kDroppedStream = std::numeric_limits<StreamHandle>::max();

}  // namespace

StreamIndex Arena::add_stream(StreamHandle stream) {
  if (!spare_streams_.empty()) {
    const StreamIndex index = spare_streams_.back();
    spare_streams_.pop_back();
    streams_[index] = stream;
    return index;
  }
  indexes_.resize(indexes_.size() + kLaneCount);
  streams_.push_back(stream);
  return stream_count() - 1;
}

StreamIndex Arena::find_stream(StreamHandle stream) const {
  for (StreamIndex index = 1; index < stream_count(); ++index) {
    if (streams_[index] == stream) return index;
  }
  return kNoStream;
}

StreamIndex Arena::stream_index(StreamHandle stream) {
  const StreamIndex index = find_stream(stream);
  return index != kNoStream ? index : add_stream(stream);
}

void Arena::drop_stream(StreamIndex index) {
  streams_[index] = kDroppedStream;
  spare_streams_.push_back(index);
}

NodeId Arena::new_node() {
  if (spare_.empty()) {
    nodes_.emplace_back();
    return static_cast<NodeId>(nodes_.size() - 1);
  }
  const NodeId id = spare_.back();
  spare_.pop_back();
  return id;
}

void Arena::drop_node(NodeId id) {
  starts_.drop(nodes_, id);
  nodes_[id] = Node{};
  spare_.push_back(id);
}

// The arena grows seldom, so a walk is good enough to find the neighbours.
void Arena::chain(NodeId id) {
  Node& added = nodes_[id];
  for (NodeId other = 0; other < nodes_.size(); ++other) {
    Node& node = nodes_[other];
    if (node.state == NodeState::kUnused) continue;
    if (node.address + node.size_bytes == added.address) {
      node.next = id;
      added.prev = other;
    } else if (node.address == added.address + added.size_bytes) {
      node.prev = id;
      added.next = other;
    }
  }
}

NodeId Arena::add(Address address, uint64_t bytes, Lane lane, bool may_join, StreamIndex stream) {
  const NodeId id = new_node();
  nodes_[id].address = address;
  nodes_[id].size_bytes = bytes;
  nodes_[id].lane = lane;
  nodes_[id].state = NodeState::kLive;
  if (may_join) chain(id);
  starts_.add(nodes_, id);
  return put(id, stream, 0);
}

void Arena::remove(NodeId id) {
  const Node node = nodes_[id];
  VRAM_CHECK(node.state == NodeState::kLive);
  drop_node(id);
  if (node.prev != kNoNode) nodes_[node.prev].next = kNoNode;
  if (node.next != kNoNode) nodes_[node.next].prev = kNoNode;
}

NodeId Arena::best_fit(Lane lane, StreamIndex stream, uint64_t bytes) const {
  const NodeId own = index(lane, stream).best_fit(nodes_, bytes);
  const NodeId settled = index(lane, kNoStream).best_fit(nodes_, bytes);
  if (own == kNoNode || settled == kNoNode) return own == kNoNode ? settled : own;
  return nodes_[settled].size_bytes < nodes_[own].size_bytes ? settled : own;
}

NodeId Arena::best_fit_of_all(Lane lane, uint64_t bytes) const {
  NodeId best = kNoNode;
  for (StreamIndex stream = 0; stream < stream_count(); ++stream) {
    const NodeId id = index(lane, stream).best_fit(nodes_, bytes);
    if (id == kNoNode) continue;
    if (best == kNoNode || nodes_[id].size_bytes < nodes_[best].size_bytes) best = id;
  }
  return best;
}

uint64_t Arena::largest_free_bytes() const {
  uint64_t largest = 0;
  for (const Node& node : nodes_) {
    if (node.state == NodeState::kFree) largest = std::max(largest, node.size_bytes);
  }
  return largest;
}

// The node keeps the first bytes; the new one has the rest, is chained and in no index.
NodeId Arena::split(NodeId id, uint64_t bytes) {
  const NodeId rest = new_node();
  Node& node = nodes_[id];
  nodes_[rest] = {.address = node.address + bytes,
                  .size_bytes = node.size_bytes - bytes,
                  .stamp = node.stamp,
                  .prev = id,
                  .next = node.next,
                  .stream = node.stream,
                  .lane = node.lane,
                  .state = node.state};
  if (node.next != kNoNode) nodes_[node.next].prev = rest;
  node.next = rest;
  node.size_bytes = bytes;
  starts_.add(nodes_, rest);
  return rest;
}

void Arena::insert(NodeId id) {
  nodes_[id].state = NodeState::kFree;
  index_of(nodes_[id]).insert(nodes_, id);
  free_bytes_ += nodes_[id].size_bytes;
}

void Arena::erase(NodeId id) {
  index_of(nodes_[id]).erase(nodes_, id);
  nodes_[id].state = NodeState::kLive;
  free_bytes_ -= nodes_[id].size_bytes;
}

NodeId Arena::at(Address address) const {
  const NodeId id = starts_.at_or_before(nodes_, address);
  if (id == kNoNode || nodes_[id].address + nodes_[id].size_bytes <= address) return kNoNode;
  return id;
}

NodeId Arena::find_free(Address address, uint64_t bytes, StreamIndex stream) const {
  const NodeId id = starts_.at_or_before(nodes_, address);
  if (id == kNoNode) return id;
  const Node& node = nodes_[id];
  const bool is_usable = node.state == NodeState::kFree &&
                         (node.stream == stream || node.stream == kNoStream) &&
                         node.address + node.size_bytes >= address + bytes;
  return is_usable ? id : kNoNode;
}

Arena::Carved Arena::carve(NodeId free_node, Address address, uint64_t bytes) {
  VRAM_CHECK(nodes_[free_node].state == NodeState::kFree);
  erase(free_node);
  Carved carved{free_node, kNoNode};
  if (address > nodes_[free_node].address) {
    carved.part = split(free_node, address - nodes_[free_node].address);
    insert(free_node);
  }
  if (nodes_[carved.part].size_bytes > bytes) {
    carved.rest = split(carved.part, bytes);
    insert(carved.rest);
  }
  return carved;
}

NodeId Arena::put(NodeId id, StreamIndex stream, Stamp stamp) {
  Node& node = nodes_[id];
  VRAM_CHECK(node.state == NodeState::kLive);
  node.stream = stream;
  node.stamp = stamp;
  id = join_neighbours(id);
  insert(id);
  return id;
}

NodeId Arena::settle(NodeId id) {
  erase(id);
  return put(id, kNoStream, 0);
}

bool Arena::joins(const Node& a, const Node& b) const {
  if (a.state != NodeState::kFree || a.lane != b.lane) return false;
  return a.stream == b.stream || a.stream == kNoStream || b.stream == kNoStream;
}

NodeId Arena::join_neighbours(NodeId id) {
  const NodeId next = nodes_[id].next;
  if (next != kNoNode && joins(nodes_[next], nodes_[id])) {
    erase(next);
    absorb(id, next);
  }
  const NodeId prev = nodes_[id].prev;
  if (prev != kNoNode && joins(nodes_[prev], nodes_[id])) {
    erase(prev);
    absorb(prev, id);
    return prev;
  }
  return id;
}

void Arena::absorb(NodeId id, NodeId next) {
  Node& node = nodes_[id];
  const Node gone = nodes_[next];
  drop_node(next);
  node.size_bytes += gone.size_bytes;
  node.stream = std::max(node.stream, gone.stream);  // one of them, where not both, is kNoStream
  node.stamp = std::max(node.stamp, gone.stamp);
  node.next = gone.next;
  if (gone.next != kNoNode) nodes_[gone.next].prev = id;
}

bool Leases::lend(uint64_t min_bytes, uint64_t max_bytes, StreamIndex stream, Lease* lease) {
  const Lane lane = lane_of(min_bytes);
  for (uint64_t bytes = round_size(max_bytes); bytes >= round_size(min_bytes);
       bytes = bytes / 2 / kAlignmentBytes * kAlignmentBytes) {
    NodeId node = arena_.best_fit(lane, stream, bytes);
    // A whole lease of small blocks does no harm among large ones.
    if (node == kNoNode && lane == Lane::kSmall && bytes == round_size(max_bytes)) {
      node = arena_.best_fit(Lane::kLarge, stream, bytes);
    }
    if (node == kNoNode) continue;
    const Address address = arena_[node].address;
    *lease = {address, bytes, arena_.carve(node, address, bytes).part, lane};
    bytes_ += bytes;
    return true;
  }
  return false;
}

NodeId Leases::take_back(Lease* lease, uint64_t bytes) {
  const NodeId part = lease->node;
  bytes_ -= bytes;
  lease->bytes -= bytes;
  lease->address += bytes;
  if (lease->bytes > 0) lease->node = arena_.cut(part, bytes);
  return part;
}

// What must always hold within the arena.

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

}  // namespace vram::pool
