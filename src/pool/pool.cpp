#include "pool/pool.hpp"

#include "pool/sizes.hpp"

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
  if (bytes > kMaxAllocationBytes || !is_ready_) return fail(bytes);
  returns_.look();
  const Wanted wanted{.size_bytes = round_size(bytes),
                      .requested_bytes = bytes,
                      .stream = arena_.stream_index(stream),
                      .lane = lane_of(bytes)};
  Allocation found;
  if (wanted.lane == Lane::kSmall) {
    found = placement_.search(wanted);
    return found.address != 0 ? found : climb(wanted);
  }
  found = placement_.place_again(recall_.expect(wanted.size_bytes, wanted.stream), wanted);
  if (found.address == 0) found = placement_.search(wanted);
  if (found.address == 0) found = climb(wanted);
  const StitchId stitch = found.address == 0 ? kNoStitch : blocks_[found.block.index].stitch;
  recall_.note({found.address, stitch});
  return found;
}

Allocation Pool::climb(const Wanted& wanted) {
  const Allocation found = ladder_.climb(wanted);
  return found.address != 0 ? found : fail(wanted.requested_bytes);
}

Allocation Pool::fail(uint64_t requested_bytes) {
  oom_ = {.requested_bytes = requested_bytes,
          .largest_free_bytes = arena_.largest_free_bytes(),
          .free_bytes = arena_.free_bytes(),
          .held_bytes = stats_.active_bytes.current - stats_.allocated_bytes.current,
          .reserved_bytes = stock_.bytes(),
          .limit_bytes = supply_.limit_bytes(),
          .backing = options_.backing,
          .holders = options_.finds_holders ? blocks_.find_holders() : Holders{}};
  gpu::MemoryInfo info;
  if (device_.memory().memory_info(device_.ordinal(), &info) == Status::kOk) {
    oom_.device_free_bytes = info.free_bytes;
    oom_.device_total_bytes = info.total_bytes;
  }
  return {};
}

bool Pool::lend(uint64_t min_bytes, uint64_t max_bytes, StreamHandle stream, Lease* lease) {
  if (min_bytes > kMaxAllocationBytes) return false;
  const StreamIndex index = arena_.stream_index(stream);
  if (leases_.lend(min_bytes, max_bytes, index, lease)) return true;
  returns_.settle();
  if (leases_.lend(min_bytes, max_bytes, index, lease)) return true;
  const Wanted wanted{.size_bytes = round_size(max_bytes),
                      .requested_bytes = max_bytes,
                      .stream = index,
                      .lane = lane_of(min_bytes)};
  return grow_beside_leases(wanted) && leases_.lend(min_bytes, max_bytes, index, lease);
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

void Pool::report_parts(const Blocks::Block& block, Observer& observer) const {
  if (block.stitch == kNoStitch) return;
  for (const auto& [home, bytes] : stitches_[block.stitch].shown) {
    observer.part(block.address, home, bytes);
  }
}

void Pool::report_parts(BlockId id, Observer& observer) const {
  const Blocks::Block& block = blocks_[id.index];
  if (block.is_live && block.serial == id.serial) report_parts(block, observer);
}

void Pool::report_all(Observer& observer) const {
  for (HandleId id = 0; id < stock_.limit(); ++id) {
    if (stock_[id].bytes != 0) observer.found_mapped(stock_[id].home, stock_[id].bytes);
  }
  for (const Blocks::Block& block : blocks_.all()) {
    if (!block.is_live) continue;
    report_parts(block, observer);
    observer.found_block(block.address, block.requested_bytes, arena_.stream(block.stream),
                         block.is_held     ? Found::kHeld
                         : block.is_shared ? Found::kShared
                                           : Found::kLive);
  }
}

// What must always hold within and between the pool's parts.

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
