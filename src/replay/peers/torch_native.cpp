#include "replay/peers/torch_native.hpp"

#include <algorithm>

namespace vram::replay {

namespace {

bool takes_over_segments(const Program& program) {
  return std::ranges::none_of(program.initial_segments, &InitialSegment::is_expandable);
}

}  // namespace

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

}  // namespace vram::replay
