#include "replay/peers/cupy.hpp"

#include "replay/peers/settings.hpp"

#include <array>
#include <limits>

namespace vram::replay {
namespace {

constexpr std::array<PeerKey, 1> kCupyKeys{{{"limit", "SIZE"}}};

constexpr uint64_t kCupyUnitBytes = 512;

bool read(std::string_view key, std::string_view value, CupySettings& to) {
  static_cast<void>(key);
  return keep(read_size(value), to.limit_bytes);
}

}  // namespace

Cupy::Cupy(const CupySettings& settings, const PeerContext& context)
    : CachingBase(context.limit_bytes, context.program, context.segments),
      pool_limit_bytes_(settings.limit_bytes.value_or(std::numeric_limits<uint64_t>::max())) {}

uint64_t Cupy::malloc(const Request& request) {
  if (const auto answer = answer_at_once(request.size_bytes)) return *answer;
  const uint64_t size_bytes = round_up(request.size_bytes, kCupyUnitBytes);
  const uint32_t lane = cache_.lane_for(0, request.stream, false);
  NodeId node = take_best_fit(lane, size_bytes);
  if (node == kNoNode) node = grow(size_bytes, lane);
  if (node == kNoNode) return 0;
  if (cache_[node].size_bytes > size_bytes) split_off_rest(node, size_bytes);
  return hand_out(node, request);
}

NodeId Cupy::grow(uint64_t size_bytes, uint32_t lane) {
  const uint64_t reserved_bytes = cache_.usage().reserved_bytes;
  if (reserved_bytes + size_bytes > pool_limit_bytes_) return kNoNode;
  const NodeId node = take_segment_within_limit(size_bytes, lane);
  if (node != kNoNode) return node;
  empty_cache();
  cache_.count_retry();
  return take_segment_within_limit(size_bytes, lane);
}

void Cupy::empty_cache() { give_back_segments(cache_.default_group(false)); }

uint64_t Cupy::largest_free_bytes(const Request& request) const {
  return cache_.largest_free_bytes(0, request.stream, false);
}

std::span<const PeerKey> cupy_keys() { return kCupyKeys; }

Result<CupySettings> parse_cupy_settings(Settings settings) {
  return parse_settings<CupySettings>("cupy", kCupyKeys, settings, read);
}

std::unique_ptr<Allocator> make_cupy(Settings settings, const PeerContext& context) {
  return std::make_unique<Cupy>(parse_cupy_settings(settings).value(), context);
}

}  // namespace vram::replay
