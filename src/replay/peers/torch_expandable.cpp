#include "replay/peers/torch_expandable.hpp"

#include "base/result.hpp"

#include <algorithm>
#include <iterator>

namespace vram::replay {

namespace {

constexpr uint32_t kNativeSegment = 0xffffffff;  // Node::segment; else a reservation

bool takes_over_pages(const TorchRules& rules, uint64_t device_bytes, const Program& program) {
  bool has_expandable = false;
  for (const InitialSegment& segment : program.initial_segments) {
    if (!segment.is_expandable) continue;
    has_expandable = true;
    const uint64_t offset = segment.address - segment.reservation_address;
    const uint64_t granule = rules.granule_bytes(segment.is_small);
    if (offset % granule != 0 || segment.size_bytes % granule != 0) return false;
    if (offset + segment.size_bytes > device_bytes) return false;
  }
  return has_expandable || program.initial_segments.empty();
}

}  // namespace

TorchExpandable::TorchExpandable(const TorchSettings& settings, std::optional<uint64_t> limit_bytes,
                                 bool has_room, uint64_t device_bytes, const Program& program,
                                 SegmentSource& segments)
    : TorchBase(settings, limit_bytes,
                has_room && takes_over_pages(TorchRules(settings), device_bytes, program), program,
                segments),
      device_bytes_(device_bytes),
      native_pools_(program.native_pools) {
  if (holds_initial_blocks()) take_over(program);
  if (holds_initial_blocks() || !program.initial_blocks.empty()) return;
  for (const InitialSegment& segment : program.initial_segments) {
    const Wanted wanted{.size_bytes = segment.size_bytes,
                        .segment_bytes = segment.size_bytes,
                        .lane = cache_.lane_for(segment.pool, segment.stream, segment.is_small)};
    const NodeId node = take_from_device(wanted);
    if (node != kNoNode) cache_.put_free(node);
  }
}

void TorchExpandable::take_over(const Program& program) {
  uint32_t next_block = 0;
  for (const InitialSegment& segment : program.initial_segments) {
    const NodeId node =
        segment.is_expandable ? map_initial(segment) : take_initial_segment(segment);
    if (!segment.is_expandable && node != kNoNode) cache_[node].segment = kNativeSegment;
    if (node != kNoNode) place_initial_blocks(node, program, segment, next_block);
  }
}

// Segments come by address, and the rest of a lane's reservation is one unmapped node at its end.
NodeId TorchExpandable::map_initial(const InitialSegment& segment) {
  const uint32_t lane = cache_.lane_for(segment.pool, segment.stream, segment.is_small);
  auto& unmapped = cache_.lane(lane).unmapped;
  NodeId id = unmapped.empty() ? add_reservation({.size_bytes = segment.size_bytes, .lane = lane})
                               : std::prev(unmapped.end())->second;
  if (id == kNoNode) return kNoNode;
  const uint64_t address =
      reservations_[cache_[id].segment].address + segment.address - segment.reservation_address;
  if (address > cache_[id].address) id = cache_.split(id, address - cache_[id].address);
  cache_.lane(lane).unmapped.erase(address);
  if (!segments_.map(address, segment.size_bytes, rules_.granule_bytes(segment.is_small))) {
    cache_.lane(lane).unmapped.emplace(address, id);
    return kNoNode;
  }
  if (cache_[id].size_bytes > segment.size_bytes) {
    const NodeId rest = cache_.split(id, segment.size_bytes);
    cache_.lane(lane).unmapped.emplace(cache_[rest].address, rest);
  }
  cache_[id].is_mapped = true;
  cache_.add_reserved(segment.size_bytes);
  return id;
}

bool TorchExpandable::expands(uint32_t lane) {
  return std::ranges::find(native_pools_, cache_.lane(lane).pool) == native_pools_.end();
}

// A free block can grow into the unmapped range that follows it.
uint64_t TorchExpandable::size_with_room(NodeId id) {
  const Node& node = cache_[id];
  if (node.next == kNoNode || cache_[node.next].is_mapped) return node.size_bytes;
  return node.size_bytes + cache_[node.next].size_bytes;
}

// Blocks that cannot grow are preferred to the last one, which can.
NodeId TorchExpandable::find_free(const Wanted& wanted) {
  FreeSet& free = cache_.lane(wanted.lane).free;
  FreeSet::Cursor at = free.at_least(wanted.size_bytes);
  if (free.is_end(at)) return kNoNode;
  uint64_t room = size_with_room(free[at].node);
  for (FreeSet::Cursor next = free.next(at); !free.is_end(next); next = free.next(at)) {
    const uint64_t next_room = size_with_room(free[next].node);
    if (next_room >= room) break;
    at = next;
    room = next_room;
  }
  const FreeBlock best = free[at];
  if (rules_.is_too_large(wanted.size_bytes, best.size_bytes)) return kNoNode;
  free.erase(at);
  return best.node;
}

bool TorchExpandable::is_usable(NodeId node) {
  return node != kNoNode && cache_[node].state == NodeState::kFree;
}

NodeId TorchExpandable::add_reservation(const Wanted& wanted) {
  const uint32_t lane = wanted.lane;
  const uint64_t granule = rules_.granule_bytes(cache_.lane(lane).is_small);
  const uint64_t bytes = round_up(std::max(device_bytes_ / 8 * 9, wanted.size_bytes), granule);
  const uint64_t address = segments_.reserve(bytes);
  if (address == 0) return kNoNode;
  Node node;
  node.address = address;
  node.size_bytes = bytes;
  node.lane = lane;
  node.segment = static_cast<uint32_t>(reservations_.size());
  node.is_mapped = false;
  reservations_.push_back({address, bytes});
  const NodeId id = cache_.add_node(node);
  cache_.lane(lane).unmapped.emplace(address, id);
  return id;
}

// The first run of free and unmapped neighbours that is long enough, by address.
NodeId TorchExpandable::find_room(const Wanted& wanted) {
  for (const auto& [address, unmapped] : cache_.lane(wanted.lane).unmapped) {
    NodeId first = unmapped;
    if (is_usable(cache_[first].prev)) first = cache_[first].prev;
    uint64_t total = 0;
    for (NodeId id = first; is_usable(id) && total < wanted.size_bytes; id = cache_[id].next) {
      total += cache_[id].size_bytes;
    }
    if (total >= wanted.size_bytes) return first;
  }
  return add_reservation(wanted);
}

// Maps whole granules from an unmapped node's beginning and joins them with free neighbours; the
// node is free then. False where the device has no room.
bool TorchExpandable::map(NodeId id, uint64_t bytes) {
  const uint64_t granule = rules_.granule_bytes(cache_.lane_of(cache_[id]).is_small);
  const uint64_t mapped = round_up(bytes, granule);
  const uint64_t address = cache_[id].address;
  if (!segments_.map(address, mapped, granule)) return false;
  Lane& lane = cache_.lane_of(cache_[id]);
  lane.unmapped.erase(address);
  if (cache_[id].size_bytes > mapped) {
    const NodeId rest = cache_.split(id, mapped);
    lane.unmapped.emplace(cache_[rest].address, rest);
  }
  cache_[id].is_mapped = true;
  cache_.merge(id, cache_[id].prev);
  cache_.merge(id, cache_[id].next);
  cache_.put_free(id);
  cache_.add_reserved(mapped);
  return true;
}

// What was mapped before a refusal stays, as free memory.
NodeId TorchExpandable::take_from_device(const Wanted& wanted) {
  if (wanted.size_bytes > std::max(device_bytes_, kMaxDeviceBytes)) return kNoNode;
  if (!expands(wanted.lane)) {
    const NodeId node = take_segment(wanted.segment_bytes, wanted.lane);
    if (node != kNoNode) cache_[node].segment = kNativeSegment;
    return node;
  }
  NodeId id = find_room(wanted);
  if (id == kNoNode) return kNoNode;
  if (!cache_[id].is_mapped && !map(id, std::min(cache_[id].size_bytes, wanted.size_bytes))) {
    return kNoNode;
  }
  while (cache_[id].size_bytes < wanted.size_bytes) {
    const NodeId next = cache_[id].next;
    VRAM_CHECK(next != kNoNode);  // the run that find_room found is long enough
    const uint64_t missing = wanted.size_bytes - cache_[id].size_bytes;
    if (!map(next, std::min(missing, cache_[next].size_bytes))) return kNoNode;
    id = next;
  }
  cache_.take_free(id);
  return id;
}

// Releases for max_split_size leave expandable segments alone.
bool TorchExpandable::give_back_some(const Wanted& wanted) {
  static_cast<void>(wanted);
  return false;
}

void TorchExpandable::give_back(LaneGroup& group) {
  for (const NodeId id : cache_.free_nodes(group)) {
    if (cache_[id].segment != kNativeSegment) {
      unmap(id);
    } else if (cache_[id].is_whole()) {
      give_back_segment(id);
    }
  }
}

// The granules that lie fully inside a free node; its edges stay mapped.
void TorchExpandable::unmap(NodeId id) {
  const uint64_t granule = rules_.granule_bytes(cache_.lane_of(cache_[id]).is_small);
  const uint64_t origin = reservations_[cache_[id].segment].address;
  const uint64_t begin = cache_[id].address - origin;
  const uint64_t low = origin + round_up(begin, granule);
  const uint64_t high = origin + (begin + cache_[id].size_bytes) / granule * granule;
  if (high <= low) return;
  segments_.unmap(low, high - low, granule);
  cache_.drop_reserved(high - low);
  cache_.take_free(id);
  if (low > cache_[id].address) {
    const NodeId middle = cache_.split(id, low - cache_[id].address);
    cache_.put_free(id);
    id = middle;
  }
  if (cache_[id].address + cache_[id].size_bytes > high) {
    cache_.put_free(cache_.split(id, high - low));
  }
  cache_[id].is_mapped = false;
  cache_.merge(id, cache_[id].prev);
  cache_.merge(id, cache_[id].next);
  cache_.lane_of(cache_[id]).unmapped.emplace(cache_[id].address, id);
  drop_if_empty(id);
}

void TorchExpandable::drop_if_empty(NodeId id) {
  const Node& node = cache_[id];
  if (!node.is_whole()) return;
  const Reservation& all = reservations_[node.segment];
  segments_.unreserve(all.address, all.size_bytes);
  cache_.lane_of(node).unmapped.erase(node.address);
  cache_.drop_node(id);
}

}  // namespace vram::replay
