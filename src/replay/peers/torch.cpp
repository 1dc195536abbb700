#include "replay/peers/torch.hpp"

#include "base/result.hpp"

#include <algorithm>
#include <iterator>

namespace vram::replay {
namespace {

bool takes_over_segments(const Program& program) {
  return std::ranges::none_of(program.initial_segments, &InitialSegment::is_expandable);
}

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

TorchBase::TorchBase(const TorchSettings& settings, std::optional<uint64_t> limit_bytes,
                     bool takes_over, const Program& program, SegmentSource& segments)
    : CachingBase(limit_bytes, program, segments), rules_(settings), takes_over_(takes_over) {}

bool can_hold_layout(const Program& program, std::optional<uint64_t> room_bytes) {
  if (!program.knows_layout) return false;
  uint64_t total = 0;
  for (const InitialSegment& segment : program.initial_segments) total += segment.size_bytes;
  return total <= room_bytes.value_or(gpu::kUnlimited);
}

uint64_t TorchBase::malloc(const Request& request) {
  if (request.size_bytes > kMaxRequestBytes) return 0;
  const uint64_t size_bytes = rules_.round(request.size_bytes);
  const bool is_small = size_bytes <= kSmallRequestBytes;
  const Wanted wanted{.size_bytes = size_bytes,
                      .segment_bytes = rules_.segment_bytes(size_bytes),
                      .lane = cache_.lane_for(request.pool, request.stream, is_small)};
  if (collects_garbage()) ++cache_.group_of(cache_.lane(wanted.lane)).searches;
  NodeId node = find_free(wanted);
  if (node == kNoNode) node = serve_slowly(wanted);
  if (node == kNoNode) return 0;
  if (rules_.splits(size_bytes, cache_[node].size_bytes - size_bytes, is_small)) {
    split_off_rest(node, size_bytes);
  }
  return hand_out(node, request);
}

// After waiting for the device, blocks that would fit may be free: PyTorch does not look for them,
// but asks the driver again.
NodeId TorchBase::serve_slowly(const Wanted& wanted) {
  if (collects_garbage()) collect_garbage();
  NodeId node = grow(wanted);
  if (node != kNoNode) return node;
  if (rules_.settings().throw_on_oom && is_refused_by_limit(wanted.segment_bytes)) return kNoNode;
  if (rules_.settings().has_max_split() && give_back_some(wanted)) {
    node = grow(wanted);
    if (node != kNoNode) return node;
  }
  give_back_all();
  cache_.count_retry();
  return grow(wanted);
}

// Private pools keep their memory: the graphs that captured it still use it.
void TorchBase::give_back_all() {
  cache_.complete_pending();
  give_back(cache_.default_group(false));
  give_back(cache_.default_group(true));
}

void TorchBase::empty_cache() { give_back_all(); }

uint64_t TorchBase::largest_free_bytes(const Request& request) const {
  const bool is_small = rules_.round(request.size_bytes) <= kSmallRequestBytes;
  return cache_.largest_free_bytes(request.pool, request.stream, is_small);
}

TorchNative::TorchNative(const TorchSettings& settings, std::optional<uint64_t> limit_bytes,
                         bool has_room, const Program& program, SegmentSource& segments)
    : TorchBase(settings, limit_bytes, has_room && takes_over_segments(program), program,
                segments) {
  if (!holds_initial_blocks() && !program.initial_blocks.empty()) return;
  uint32_t next_block = 0;
  for (const InitialSegment& segment : program.initial_segments) {
    const NodeId node = take_initial_segment(segment);
    if (node != kNoNode) place_initial_blocks(node, program, segment, next_block);
  }
}

NodeId TorchNative::find_free(const Wanted& wanted) {
  FreeSet& free = cache_.lane(wanted.lane).free;
  const FreeSet::Cursor at = free.at_least(wanted.size_bytes);
  if (free.is_end(at)) return kNoNode;
  const FreeBlock best = free[at];
  if (rules_.is_too_large(wanted.size_bytes, best.size_bytes)) return kNoNode;
  free.erase(at);
  return best.node;
}

NodeId TorchNative::take_from_device(const Wanted& wanted) {
  return take_segment(wanted.segment_bytes, wanted.lane);
}

// The smallest oversize block that would do by itself; else the largest ones until their sum would.
// Blocks above max_split_size are never split, so each is a whole segment.
bool TorchNative::give_back_some(const Wanted& wanted) {
  const uint64_t max_split = rules_.settings().max_split_bytes;
  const uint64_t key = std::max(wanted.size_bytes, max_split);
  FreeSet& free = cache_.lane(wanted.lane).free;
  const FreeSet::Cursor at = free.at_least(key);
  if (!free.is_end(at)) {
    const NodeId enough = free[at].node;
    if (cache_[enough].is_whole()) give_back_segment(enough);
    return true;
  }
  uint64_t total = 0;
  while (total < key) {
    const FreeBlock* largest = free.largest();
    if (largest == nullptr || largest->size_bytes < max_split) return false;
    if (!cache_[largest->node].is_whole()) return false;
    total += largest->size_bytes;
    give_back_segment(largest->node);
  }
  return true;
}

void TorchNative::give_back(LaneGroup& group) { give_back_segments(group); }

// Frees segments that went unused for longer than the average one, in passes, until reserved memory
// is at the threshold.
void TorchNative::collect_garbage() {
  const double threshold =
      rules_.settings().garbage_collection_threshold * static_cast<double>(*limit_bytes_);
  const auto threshold_bytes = static_cast<uint64_t>(threshold);
  const uint64_t reserved = cache_.usage().reserved_bytes;
  if (reserved <= threshold_bytes) return;
  const uint64_t target = reserved - threshold_bytes;
  LaneGroup& group = cache_.default_group(false);
  double total_age = 0;
  uint64_t count = 0;
  for (const NodeId id : cache_.free_nodes(group)) {
    if (!cache_[id].is_whole()) continue;
    total_age += static_cast<double>(group.searches - cache_[id].searches_then);
    ++count;
  }
  uint64_t reclaimed = 0;
  while (reclaimed < target && count > 0) {
    const uint64_t freed =
        collect_once(group, total_age / static_cast<double>(count), total_age, count);
    if (freed == 0) return;
    reclaimed += freed;
  }
}

// One pass over everything, also past the target: the average moves for the next pass only.
uint64_t TorchNative::collect_once(LaneGroup& group, double min_age, double& total_age,
                                   uint64_t& count) {
  uint64_t freed = 0;
  for (const NodeId id : cache_.free_nodes(group)) {
    const Node& node = cache_[id];
    const auto age = static_cast<double>(group.searches - node.searches_then);
    if (!node.is_whole() || age < min_age) continue;
    freed += node.size_bytes;
    total_age -= age;
    --count;
    give_back_segment(id);
  }
  return freed;
}

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
