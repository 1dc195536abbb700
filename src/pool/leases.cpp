#include "pool/leases.hpp"

#include "pool/sizes.hpp"

namespace vram::pool {

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

}  // namespace vram::pool
