#include "pool/pool.hpp"

#include "pool/sizes.hpp"

#include <utility>

namespace vram::pool {

Pool::Pool(Device& device, const Options& options)
    : device_(device),
      options_(options),
      stock_(device.memory(), device.ordinal(), options.backing),
      stitches_(device, stock_),
      is_ready_(supply_.reserve()) {}

Allocation Pool::allocate(uint64_t bytes, StreamHandle stream) {
  const Allocation found = try_allocate(bytes, stream);
  if (found.address == 0) count_oom();
  return found;
}

Allocation Pool::try_allocate(uint64_t bytes, StreamHandle stream) {
  if (bytes > kLargestBytes || !is_ready_) return fail({.requested_bytes = bytes});
  returns_.look();
  const Wanted wanted{.size_bytes = round_size(bytes),
                      .requested_bytes = bytes,
                      .stream = arena_.stream_index(stream),
                      .lane = lane_of(bytes)};
  Allocation found;
  if (wanted.lane == Lane::kSmall) {
    found = search(wanted);
    return found.address != 0 ? found : climb(wanted);
  }
  found = serve_again(recall_.expect(wanted.size_bytes, wanted.stream), wanted);
  if (found.address == 0) found = search(wanted);
  if (found.address == 0) found = climb(wanted);
  const StitchId stitch = found.address == 0 ? kNoStitch : blocks_[found.block.index].stitch;
  recall_.note({found.address, stitch});
  return found;
}

Allocation Pool::serve_again(Recall::Answer answer, const Wanted& wanted) {
  if (answer.address == 0) return {};
  if (answer.stitch != kNoStitch) return show_again(answer.stitch, answer.address, wanted);
  const NodeId node = arena_.find_free(answer.address, wanted.size_bytes, wanted.stream);
  if (node == kNoNode) return {};
  return blocks_.add(arena_.carve(node, answer.address, wanted.size_bytes).part, answer.address,
                     wanted, kNoStitch);
}

// Through the same stitch, if all that it showed then is free.
Allocation Pool::show_again(StitchId id, Address address, const Wanted& wanted) {
  const Stitches::Stitch& stitch = stitches_[id];
  if (!stitch.is_idle() || stitch.address + stitch.offset_bytes != address) return {};
  uint64_t bytes = 0;
  for (const auto& [home, part_bytes] : stitch.shown) {
    if (arena_.find_free(home, part_bytes, wanted.stream) == kNoNode) return {};
    bytes += part_bytes;
  }
  if (bytes != wanted.size_bytes) return {};
  std::vector<NodeId> parts;
  for (const auto& [home, part_bytes] : stitch.shown) {
    const NodeId node = arena_.find_free(home, part_bytes, wanted.stream);
    parts.push_back(arena_.carve(node, home, part_bytes).part);
  }
  const NodeId first = parts.front();
  ++stats_.stitch_reuses;
  stitches_.use(id, std::move(parts), stitch.offset_bytes, stitch.shown);
  return blocks_.add(first, address, wanted, id);
}

Allocation Pool::serve(NodeId free_node, const Wanted& wanted) {
  const Address address = arena_[free_node].address;
  const NodeId node = arena_.carve(free_node, address, wanted.size_bytes).part;
  return blocks_.add(node, address, wanted, kNoStitch);
}

bool Pool::lend(uint64_t least_bytes, uint64_t most_bytes, StreamHandle stream, Lease* lease) {
  if (least_bytes > kLargestBytes) return false;
  const StreamIndex index = arena_.stream_index(stream);
  if (leases_.lend(least_bytes, most_bytes, index, lease)) return true;
  returns_.settle();
  if (leases_.lend(least_bytes, most_bytes, index, lease)) return true;
  const Wanted wanted{.size_bytes = round_size(most_bytes),
                      .requested_bytes = most_bytes,
                      .stream = index,
                      .lane = lane_of(least_bytes)};
  return grow_beside_leases(wanted) && leases_.lend(least_bytes, most_bytes, index, lease);
}

bool Pool::grow_beside_leases(const Wanted& wanted) {
  const uint64_t most =
      supply_.allowance_bytes(wanted) / 1000 * (1000 + options_.competing_permille);
  return stock_.bytes() + wanted.size_bytes <= most && supply_.grow(wanted.size_bytes, wanted);
}

BlockId Pool::keep(Lease* lease, uint64_t bytes, uint64_t requested_bytes, StreamHandle stream) {
  const Address address = lease->address;
  const Wanted wanted{.size_bytes = bytes,
                      .requested_bytes = requested_bytes,
                      .stream = arena_.stream_index(stream),
                      .lane = lease->lane};
  return blocks_.add(leases_.take_back(lease, bytes), address, wanted, kNoStitch).block;
}

void Pool::give_back(Lease* lease, uint64_t bytes, StreamHandle stream) {
  const StreamIndex index = arena_.stream_index(stream);
  returns_.put(leases_.take_back(lease, bytes), index);
}

std::array<std::pair<Address, uint64_t>, 2> Pool::ranges() const {
  return {std::pair{stock_.base(), stock_.reserved_bytes()},
          std::pair{stitches_.base(), stitches_.reserved_bytes()}};
}

BlockId Pool::block_at(Address address, BlockInfo* info) const {
  *info = {};
  const BlockId id = blocks_.at(address);
  if (id == BlockId{}) return id;
  const Blocks::Block& block = blocks_[id.index];
  *info = {.address = block.address,
           .size_bytes = block.size_bytes,
           .requested_bytes = block.requested_bytes,
           .stream = arena_.stream(block.stream),
           .is_live = true};
  return id;
}

BlockInfo Pool::info_of(NodeId id) const {
  const Node& node = arena_[id];
  BlockInfo info{.address = node.address, .size_bytes = node.size_bytes};
  info.is_live = node.state == NodeState::kLive;
  info.stream = arena_.stream(node.stream);
  const NodeId first = info.is_live ? blocks_.first_part_of(id) : kNoNode;
  if (first != kNoNode) info.is_held = blocks_[first].is_held;
  if (first != id) return info;
  info.requested_bytes = blocks_[id].requested_bytes;
  info.stream = arena_.stream(blocks_[id].stream);
  return info;
}

}  // namespace vram::pool
