#include "pool/supply.hpp"

#include "pool/sizes.hpp"

#include <algorithm>

namespace vram::pool {
namespace {

// Address space costs nothing, but there is an end to it.
constexpr uint64_t kMaxDeviceBytes = uint64_t{1} << 42;
constexpr uint64_t kHomesPerDevice = uint64_t{2} * Stock::kSides;
constexpr uint64_t kStitchesPerDevice = 8;

constexpr uint64_t kMinHandles = 1536;  // that all the room there is should hold
// Mapping smaller ones costs more than they save, but where there is next to no room.
constexpr uint64_t kWorthwhileBytes = 8 * kMiB;
constexpr uint64_t kLittleRoomBytes = 3 * kGiB;
// What a large request lacks comes in so many parts, in handles up to so much larger than usual:
// each handle costs the same, and what is wanted as one is likely to be wanted as one again.
constexpr uint64_t kPartsOfOne = 4;
constexpr uint64_t kMaxTimesDefault = 2;

// Small blocks that stay must not part what large ones leave from what comes next.
constexpr uint64_t kPartNearlyFull = 16;

uint32_t side_of(Lane lane) { return lane == Lane::kLarge ? 0 : 1; }

}  // namespace

bool Supply::reserve() {
  gpu::MemoryInfo info;
  if (device_.memory().memory_info(device_.ordinal(), &info) != Status::kOk) return false;
  device_bytes_ = round_up(std::min(info.total_bytes, kMaxDeviceBytes), granule_bytes());
  const bool has_homes = stock_.reserve(device_bytes_ * kHomesPerDevice) == Status::kOk;
  if (!has_homes || options_.backing == Backing::kSegments) return has_homes;
  return stitches_.reserve(device_bytes_ * kStitchesPerDevice) == Status::kOk;
}

// What is lent is as good as live.
uint64_t Supply::allowance_bytes(const Wanted& wanted) const {
  const uint64_t live = stats_.active_bytes.current + leases_.bytes() + wanted.size_bytes;
  const uint64_t peak = std::max(stats_.active_bytes.peak, live);
  return peak + peak / 1000 * options_.slack_permille + 2 * growth_step_bytes();
}

uint64_t Supply::growth_step_bytes() const {
  const uint64_t granule = granule_bytes();
  const uint64_t step = stats_.active_bytes.peak / options_.growth_divisor;
  return std::clamp(round_up(step, granule), granule, largest_handle_bytes());
}

// Where there is little room, smaller ones: only free memory in the middle of a handle is
// lost.
uint64_t Supply::largest_handle_bytes() const {
  const uint64_t granule = granule_bytes();
  const uint64_t room = std::min(limit_bytes_, device_bytes_);
  const uint64_t least = room < kLittleRoomBytes ? granule : std::max(granule, kWorthwhileBytes);
  const uint64_t share = room / kMinHandles / granule * granule;
  return std::clamp(share, std::min(least, options_.handle_bytes), options_.handle_bytes);
}

// Where there is little room, nothing is larger than usual.
uint64_t Supply::largest_handle_bytes_of(uint64_t bytes) const {
  const uint64_t usual = largest_handle_bytes();
  if (usual < options_.handle_bytes) return usual;
  const uint64_t granule = granule_bytes();
  return std::clamp(bytes / kPartsOfOne / granule * granule, usual, usual * kMaxTimesDefault);
}

uint64_t Supply::tail_bytes(const Wanted& wanted) const {
  const Address end = stock_.next_home(side_of(wanted.lane));
  uint64_t bytes = 0;
  for (const StreamIndex stream : {wanted.stream, kNoStream}) {
    arena_.index(wanted.lane, stream).for_each(arena_.nodes(), [&](NodeId id) {
      if (arena_[id].address + arena_[id].size_bytes == end) bytes = arena_[id].size_bytes;
    });
  }
  return std::min(bytes, wanted.size_bytes);
}

bool Supply::is_nearly_full() const {
  return is_short_ || room_bytes() < stock_.bytes() / kPartNearlyFull;
}

// What the limit leaves.
uint64_t Supply::room_bytes() const {
  return limit_bytes_ - std::min(limit_bytes_, stock_.bytes());
}

// It is the stream's that wants it: joined to what another stream may still use, it could not be
// used at once. One stream alone has nothing to be kept from.
Status Supply::take(uint64_t bytes, const Wanted& wanted) {
  HandleId id = kNoHandle;
  const Status status = stock_.create(bytes, side_of(wanted.lane), &id);
  if (status != Status::kOk) return status;
  const StreamIndex stream = arena_.stream_count() > 2 ? wanted.stream : kNoStream;
  arena_.add(stock_[id].home, bytes, wanted.lane, options_.backing == Backing::kVirtual, stream);
  ++stats_.num_device_alloc;
  stats_.reserved_bytes.add(bytes);
  if (observer_ != nullptr) observer_->mapped(stock_[id].home, bytes);
  return status;
}

// A request is served from one segment, which a small one shares.
bool Supply::grow_by_segment(uint64_t bytes, const Wanted& wanted) {
  const uint64_t granule = granule_bytes();
  const uint64_t exact = round_up(bytes, granule);
  const uint64_t room = room_bytes();
  const uint64_t roomy =
      wanted.lane == Lane::kSmall ? granule : std::max(exact, options_.handle_bytes);
  if (roomy <= room && take(roomy, wanted) == Status::kOk) return true;
  return exact < roomy && exact <= room && take(exact, wanted) == Status::kOk;
}

bool Supply::grow(uint64_t bytes, const Wanted& wanted) {
  is_short_ = options_.backing == Backing::kSegments ? !grow_by_segment(bytes, wanted)
                                                     : !grow_by_handles(bytes, wanted);
  return !is_short_;
}

// In handles as large as may be; where the device has less room, in smaller ones.
bool Supply::grow_by_handles(uint64_t bytes, const Wanted& wanted) {
  const uint64_t granule = granule_bytes();
  uint64_t largest = largest_handle_bytes_of(bytes);
  uint64_t rest = round_up(bytes, wanted.lane == Lane::kSmall ? granule : growth_step_bytes());
  const uint64_t room = room_bytes();
  if (rest > room) rest = round_up(bytes, granule);
  if (rest > room) return false;
  while (rest > 0) {
    const uint64_t size = std::min(rest, largest);
    const Status status = take(size, wanted);
    if (status == Status::kOk) {
      rest -= size;
      continue;
    }
    if (status != Status::kOutOfMemory || size == granule) return false;
    largest = std::max(granule, size / 2 / granule * granule);
    rest = std::min(rest, round_up(bytes, granule));
  }
  return true;
}

// The free node in which the handle lies as a whole.
NodeId Supply::free_node_of(HandleId id) const {
  const Stock::Piece& piece = stock_[id];
  const NodeId node = arena_.at(piece.home);
  if (node == kNoNode || arena_[node].state != NodeState::kFree) return kNoNode;
  return arena_[node].address + arena_[node].size_bytes >= piece.end() ? node : kNoNode;
}

Status Supply::renew_access() {
  Status worst = Status::kOk;
  const auto renew = [&](Address address, uint64_t bytes) {
    const Status status =
        bytes == 0 ? Status::kOk : device_.memory().set_access(address, bytes, device_.ordinal());
    if (status != Status::kOk) worst = status;
  };
  if (options_.backing == Backing::kSegments) return worst;
  for (HandleId id = 0; id < stock_.limit(); ++id) renew(stock_[id].home, stock_[id].bytes);
  for (StitchId id = 0; id < stitches_.limit(); ++id) {
    renew(stitches_[id].address, stitches_[id].bytes);
  }
  return worst;
}

uint64_t Supply::release_handle(HandleId id) {
  const uint64_t bytes = stock_[id].bytes;
  const NodeId node = bytes == 0 ? kNoNode : free_node_of(id);
  if (node == kNoNode) return 0;
  const Node& free_node = arena_[node];
  if (free_node.stream != kNoStream &&
      !device_.is_done(arena_.stream(free_node.stream), free_node.stamp)) {
    return 0;
  }
  if (!stitches_.drop_all_of(id)) return 0;
  const Address home = stock_[id].home;
  const NodeId part = arena_.carve(node, home, bytes).part;
  const Status status = stock_.release(id);
  if (status != Status::kOk) {
    arena_.put(part, arena_[part].stream, arena_[part].stamp);
    return 0;
  }
  arena_.remove(part);
  ++stats_.num_device_free;
  stats_.reserved_bytes.drop(bytes);
  if (observer_ != nullptr) observer_->unmapped(home, bytes);
  return bytes;
}

uint64_t Supply::trim(uint64_t bytes) {
  uint64_t released = 0;
  for (HandleId id = stock_.limit(); id > 0 && released < bytes; --id) {
    released += release_handle(id - 1);
  }
  return released;
}

}  // namespace vram::pool
