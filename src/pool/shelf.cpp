#include "pool/shelf.hpp"

#include "pool/sizes.hpp"

namespace vram::pool {

void Shelf::Sum::add(uint64_t size_bytes, uint64_t requested) {
  ++blocks;
  bytes += size_bytes;
  requested_bytes += requested;
}

void Shelf::Sum::drop(uint64_t size_bytes, uint64_t requested) {
  --blocks;
  bytes -= size_bytes;
  requested_bytes -= requested;
}

Address Shelf::allocate(uint64_t bytes, StreamHandle stream) {
  const uint64_t size_bytes = round_size(bytes);
  const std::lock_guard guard(lock_);
  const NodeId node = arena_.best_fit(lane_of(bytes), arena_.stream_index(stream), size_bytes);
  if (node == kNoNode) return 0;
  const Address address = arena_[node].address;
  const NodeId part = arena_.carve(node, address, size_bytes).part;
  if (part >= requested_bytes_.size()) requested_bytes_.resize(arena_.nodes().size());
  requested_bytes_[part] = bytes;
  blocks_.set(address, part);
  counts_.live.add(size_bytes, bytes);
  counts_.served.add(size_bytes, bytes);
  return address;
}

bool Shelf::free(Address address) {
  const std::lock_guard guard(lock_);
  const NodeId part = blocks_.take(address);
  if (part == AddressMap::kNone) return false;
  const Node& node = arena_[part];
  counts_.live.drop(node.size_bytes, requested_bytes_[part]);
  arena_.put(part, node.stream, 0);
  return true;
}

bool Shelf::holds(Address address) {
  const std::lock_guard guard(lock_);
  return blocks_.find(address) != AddressMap::kNone;
}

// Its parts are not joined to those of another, so that each can be given back alone.
void Shelf::add(const Lease& lease, StreamHandle stream) {
  const std::lock_guard guard(lock_);
  const StreamIndex index = arena_.stream_index(stream);
  const NodeId node = arena_.add(lease.address, lease.bytes, lease.lane, false);
  const NodeId first = arena_.carve(node, lease.address, lease.bytes).part;
  lent_.push_back({lease, arena_.put(first, index, 0), index});
  lent_bytes_.store(lent_bytes() + lease.bytes, std::memory_order_relaxed);
}

Shelf::Part Shelf::part_of(NodeId id) const {
  const Node& node = arena_[id];
  const bool is_live = node.state == NodeState::kLive;
  return {node.address, node.size_bytes, is_live ? requested_bytes_[id] : 0, is_live};
}

void Shelf::forget_all() {
  arena_ = Arena();
  blocks_ = AddressMap();
  lent_.clear();
  counts_.live = {};
  lent_bytes_.store(0, std::memory_order_relaxed);
}

Shelf::Counts Shelf::counts() {
  const std::lock_guard guard(lock_);
  return counts_;
}

void Shelf::reset_sums() {
  const std::lock_guard guard(lock_);
  counts_.served = {};
}

}  // namespace vram::pool
