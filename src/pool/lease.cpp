// Memory lent to a thread's shelf, which cuts it into blocks of its own.
#include "pool/pool.hpp"
#include "pool/sizes.hpp"

namespace vram::pool {

bool Pool::lend(uint64_t min_bytes, uint64_t max_bytes, StreamHandle stream, Lease* lease) {
  if (min_bytes > kMaxAllocationBytes) return false;
  const StreamIndex index = arena_.stream_index(stream);
  if (lend_free(min_bytes, max_bytes, index, lease)) return true;
  settle();
  if (lend_free(min_bytes, max_bytes, index, lease)) return true;
  const Wanted wanted{.size_bytes = round_size(max_bytes),
                      .requested_bytes = max_bytes,
                      .stream = index,
                      .lane = lane_of(min_bytes)};
  return grow_beside_leases(wanted) && lend_free(min_bytes, max_bytes, index, lease);
}

bool Pool::grow_beside_leases(const Wanted& wanted) {
  const uint64_t most = allowance_bytes(wanted) / 1000 * (1000 + options_.competing_permille);
  return stock_.bytes() + wanted.size_bytes <= most && grow(wanted.size_bytes, wanted);
}

bool Pool::lend_free(uint64_t min_bytes, uint64_t max_bytes, StreamIndex index, Lease* lease) {
  const Lane lane = lane_of(min_bytes);
  for (uint64_t bytes = round_size(max_bytes); bytes >= round_size(min_bytes);
       bytes = bytes / 2 / kAlignmentBytes * kAlignmentBytes) {
    NodeId node = arena_.best_fit(lane, index, bytes);
    // A whole lease of small blocks does no harm among large ones.
    if (node == kNoNode && lane == Lane::kSmall && bytes == round_size(max_bytes)) {
      node = arena_.best_fit(Lane::kLarge, index, bytes);
    }
    if (node == kNoNode) continue;
    const Address address = arena_[node].address;
    *lease = {address, bytes, arena_.carve(node, address, bytes).part, lane};
    lent_bytes_ += bytes;
    return true;
  }
  return false;
}

NodeId Pool::cut(Lease* lease, uint64_t bytes) {
  const NodeId part = lease->node;
  lent_bytes_ -= bytes;
  lease->bytes -= bytes;
  lease->address += bytes;
  if (lease->bytes > 0) lease->node = arena_.cut(part, bytes);
  return part;
}

BlockId Pool::keep(Lease* lease, uint64_t bytes, uint64_t requested_bytes, StreamHandle stream) {
  const Address address = lease->address;
  const Wanted wanted{.size_bytes = bytes,
                      .requested_bytes = requested_bytes,
                      .stream = arena_.stream_index(stream),
                      .lane = lease->lane};
  return hand_out(cut(lease, bytes), address, wanted, kNoStitch).block;
}

void Pool::give_back(Lease* lease, uint64_t bytes, StreamHandle stream) {
  const StreamIndex index = arena_.stream_index(stream);
  const NodeId part = cut(lease, bytes);
  arena_.put(part, index, stamp_of_free(index));
}

}  // namespace vram::pool
