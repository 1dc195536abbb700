#include "pool/shelf.hpp"

#include "pool/sizes.hpp"

#include <algorithm>

namespace vram::pool {
namespace {

// What is lent at once: at least so much, and of what the shelf has this part, so that it need not
// ask often. In all, this part more than its blocks ever took.
constexpr uint64_t kMinLeaseBytes = 2 * kMiB;
constexpr uint64_t kLeasePart = 4;
constexpr uint64_t kSparePart = 2;

}  // namespace

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

uint64_t Shelf::lease_bytes(uint64_t bytes) {
  const std::lock_guard guard(lock_);
  const uint64_t needed = std::max(peak_bytes_, counts_.live.bytes + round_size(bytes));
  const uint64_t most = needed + needed / kSparePart + kMinLeaseBytes;
  const uint64_t lent = lent_bytes();
  if (lent + round_size(bytes) > most) return 0;
  return std::min(std::max({bytes, kMinLeaseBytes, lent / kLeasePart}), most - lent);
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
  peak_bytes_ = std::max(peak_bytes_, counts_.live.bytes);
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

bool Shelf::find(Address address, BlockInfo* info) {
  const std::lock_guard guard(lock_);
  const NodeId part = blocks_.find(address);
  if (part == AddressMap::kNone) return false;
  const Node& node = arena_[part];
  *info = {.address = address,
           .size_bytes = node.size_bytes,
           .requested_bytes = requested_bytes_[part],
           .stream = arena_.stream(node.stream),
           .is_live = true};
  return true;
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

bool Shelf::is_idle(const Lent& lent) const {
  const Node& first = arena_[lent.first];
  return first.state == NodeState::kFree && first.size_bytes == lent.lease.bytes;
}

size_t Shelf::lent_around(Address address) const {
  size_t lent = 0;
  while (address - lent_[lent].lease.address >= lent_[lent].lease.bytes) ++lent;
  return lent;
}

void Shelf::forget(size_t lent) {
  for (NodeId id = lent_[lent].first; id != kNoNode;) {
    const NodeId next = arena_[id].next;
    const Part part = part_of(id);
    if (part.is_live) {
      counts_.live.drop(part.size_bytes, part.requested_bytes);
      blocks_.erase(part.address);
    } else {
      (void)arena_.carve(id, part.address, part.size_bytes);
    }
    arena_.remove(id);
    id = next;
  }
  lent_bytes_.store(lent_bytes() - lent_[lent].lease.bytes, std::memory_order_relaxed);
  lent_[lent] = lent_.back();
  lent_.pop_back();
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
