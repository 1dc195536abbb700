#include "replay/peers/rmm_pool.hpp"

#include "replay/peers/settings.hpp"

#include <algorithm>
#include <array>

namespace vram::replay {
namespace {

constexpr std::array<PeerKey, 2> kRmmPoolKeys{{
    {"initial_pool_size", "SIZE, a multiple of 256 B"},
    {"maximum_pool_size", "SIZE, a multiple of 256 B, at least initial_pool_size"},
}};

constexpr uint64_t kRmmPoolUnitBytes = 256;

std::optional<uint64_t> pool_size(std::string_view text) {
  const std::optional<uint64_t> bytes = read_size(text);
  return bytes && *bytes % kRmmPoolUnitBytes == 0 ? bytes : std::nullopt;
}

bool read(std::string_view key, std::string_view value, RmmPoolSettings& to) {
  if (key == "initial_pool_size") return keep(pool_size(value), to.initial_pool_bytes);
  return keep(pool_size(value), to.maximum_pool_bytes);
}

}  // namespace

RmmPool::RmmPool(const RmmPoolSettings& settings, const PeerContext& context)
    : CachingBase(context.limit_bytes, context.program, context.segments),
      settings_(settings),
      lag_ns_(context.lag_ns) {
  if (settings_.initial_pool_bytes == 0) return;
  const uint32_t list = list_for(0);
  const NodeId pool = take_segment_within_limit(settings_.initial_pool_bytes, list);
  could_be_made_ = pool != kNoNode;
  if (could_be_made_) cache_.put_free(pool);
}

uint64_t RmmPool::malloc(const Request& request) {
  if (!could_be_made_) return 0;
  if (const auto answer = answer_at_once(request.size_bytes)) return *answer;
  const uint64_t size_bytes = round_up(request.size_bytes, kRmmPoolUnitBytes);
  const uint32_t own = list_for(request.stream);
  NodeId node = take(own, size_bytes);
  if (node == kNoNode) node = borrow(own, size_bytes, request.time_ns);
  if (node == kNoNode) node = merge_lists(own, size_bytes, request.time_ns);
  if (node == kNoNode) node = grow(own, size_bytes);
  if (node == kNoNode) return 0;
  return hand_out(node, request);
}

uint32_t RmmPool::list_for(trace::StreamId stream) {
  const uint32_t lane = cache_.lane_for(0, stream, false);
  if (lane >= lists_.size()) lists_.resize(lane + 1);
  lists_[lane].exists = true;
  return lane;
}

void RmmPool::free(uint32_t block, int64_t time_ns) {
  note_free(block, time_ns);
  CachingBase::free(block, time_ns);
}

void RmmPool::complete(uint32_t block, int64_t time_ns) {
  note_free(block, time_ns);
  CachingBase::complete(block, time_ns);
}

void RmmPool::note_free(uint32_t block, int64_t time_ns) {
  const NodeId node = cache_.node_of(block);
  if (node == kNoNode) return;
  List& list = lists_[cache_[node].lane];
  list.exists = true;
  list.freed_at_ns = time_ns;
}

void RmmPool::wait_for(uint32_t list, int64_t time_ns) {
  const std::optional<int64_t> freed_at_ns = lists_[list].freed_at_ns;
  if (freed_at_ns && time_ns - *freed_at_ns < lag_ns_) cache_.count_stream_wait();
}

NodeId RmmPool::take(uint32_t list, uint64_t size_bytes) {
  const NodeId node = take_best_fit(list, size_bytes);
  if (node != kNoNode && cache_[node].size_bytes > size_bytes) split_off_rest(node, size_bytes);
  return node;
}

NodeId RmmPool::borrow(uint32_t own, uint64_t size_bytes, int64_t time_ns) {
  for (uint32_t other = 0; other < lists_.size(); ++other) {
    if (other == own) continue;
    const NodeId node = take(other, size_bytes);
    if (node == kNoNode) continue;
    wait_for(other, time_ns);
    cache_[node].lane = own;
    return node;
  }
  return kNoNode;
}

NodeId RmmPool::merge_lists(uint32_t own, uint64_t size_bytes, int64_t time_ns) {
  for (uint32_t other = 0; other < lists_.size(); ++other) {
    if (other == own || !lists_[other].exists) continue;
    wait_for(other, time_ns);
    move_blocks(other, own);
    lists_[other].exists = false;
    const NodeId node = take(own, size_bytes);
    if (node != kNoNode) return node;
  }
  return kNoNode;
}

// A block that was moved may be swallowed by a later one; one that was not, never: it is of another
// lane.
void RmmPool::move_blocks(uint32_t from, uint32_t to) {
  for (const NodeId id : cache_.free_nodes(from)) {
    cache_.take_free(id);
    cache_[id].lane = to;
    cache_.merge(id, cache_[id].prev);
    cache_.merge(id, cache_[id].next);
    cache_.put_free(id);
  }
}

NodeId RmmPool::grow(uint32_t own, uint64_t size_bytes) {
  uint64_t bytes = bytes_to_grow(size_bytes);
  if (bytes < size_bytes) {
    reclaim(own, size_bytes);
    bytes = bytes_to_grow(size_bytes);
  }
  if (bytes < size_bytes) return kNoNode;
  NodeId node = take_segment_within_limit(bytes, own);
  while (node == kNoNode && bytes > size_bytes) {
    bytes = std::max(size_bytes, bytes / 2);
    node = take_segment_within_limit(bytes, own);
  }
  if (node != kNoNode && bytes > size_bytes) split_off_rest(node, size_bytes);
  return node;
}

uint64_t RmmPool::bytes_below_maximum() const {
  const uint64_t reserved_bytes = cache_.usage().reserved_bytes;
  const uint64_t maximum_bytes = *settings_.maximum_pool_bytes;
  return maximum_bytes - std::min(reserved_bytes, maximum_bytes);
}

uint64_t RmmPool::bytes_to_grow(uint64_t size_bytes) const {
  if (!settings_.maximum_pool_bytes) return std::max(size_bytes, cache_.usage().reserved_bytes);
  const uint64_t left_bytes = round_up(bytes_below_maximum(), kRmmPoolUnitBytes);
  return size_bytes <= left_bytes ? std::max(size_bytes, left_bytes / 2) : 0;
}

// All lists were merged into the own one before.
void RmmPool::reclaim(uint32_t own, uint64_t size_bytes) {
  if (size_bytes > *settings_.maximum_pool_bytes) return;
  const std::vector<NodeId> segments = free_segments(own);
  if (!segments.empty()) cache_.count_retry();
  for (const NodeId segment : segments) {
    if (bytes_below_maximum() >= size_bytes) return;
    give_back_segment(segment);
  }
}

uint64_t RmmPool::largest_free_bytes(const Request& request) const {
  static_cast<void>(request);  // any stream's block would do
  uint64_t largest_bytes = 0;
  for (uint32_t list = 0; list < lists_.size(); ++list) {
    largest_bytes = std::max(largest_bytes, cache_.largest_free_bytes(list));
  }
  return largest_bytes;
}

std::span<const PeerKey> rmm_pool_keys() { return kRmmPoolKeys; }

Result<RmmPoolSettings> parse_rmm_pool_settings(Settings settings) {
  auto parsed = parse_settings<RmmPoolSettings>("rmm_pool", kRmmPoolKeys, settings, read);
  if (!parsed || !parsed->maximum_pool_bytes) return parsed;
  if (parsed->initial_pool_bytes <= *parsed->maximum_pool_bytes) return parsed;
  return fail(
      Code::kBadInput, "rmm_pool: initial_pool_size is {} B, more than maximum_pool_size, {} B; {}",
      parsed->initial_pool_bytes, *parsed->maximum_pool_bytes, list_keys("rmm_pool", kRmmPoolKeys));
}

std::unique_ptr<Allocator> make_rmm_pool(Settings settings, const PeerContext& context) {
  return std::make_unique<RmmPool>(parse_rmm_pool_settings(settings).value(), context);
}

}  // namespace vram::replay
