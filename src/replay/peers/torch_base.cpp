#include "replay/peers/torch_base.hpp"

namespace vram::replay {

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

}  // namespace vram::replay
