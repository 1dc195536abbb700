#include "replay/peers/paddle.hpp"

#include "replay/peers/settings.hpp"

#include <algorithm>
#include <array>

namespace vram::replay {
namespace {

constexpr std::array<PeerKey, 4> kPaddleKeys{{
    {"auto_growth_chunk_size_in_mb", "MEBIBYTES"},
    {"gpu_memory_limit_mb", "MEBIBYTES"},
    {"free_idle_chunk", "True|False"},
    {"free_when_no_cache_hit", "True|False"},
}};

constexpr uint64_t kPaddleUnitBytes = 256;

// None if it is more than any device has.
std::optional<uint64_t> read_mebibytes(std::string_view text) {
  const std::optional<uint64_t> count = read_whole_number(text);
  return count && *count <= gpu::kUnlimited / kMiB ? count : std::nullopt;
}

bool read(std::string_view key, std::string_view value, PaddleSettings& to) {
  if (key == "auto_growth_chunk_size_in_mb")
    return keep(read_mebibytes(value), to.auto_growth_chunk_size_in_mb);
  if (key == "gpu_memory_limit_mb") return keep(read_mebibytes(value), to.gpu_memory_limit_mb);
  if (key == "free_idle_chunk") return keep(read_truth(value), to.free_idle_chunk);
  return keep(read_truth(value), to.free_when_no_cache_hit);
}

}  // namespace

Paddle::Paddle(const PaddleSettings& settings, const PeerContext& context)
    : CachingBase(context.limit_bytes, context.program, context.segments), settings_(settings) {}

uint64_t Paddle::malloc(const Request& request) {
  if (const auto answer = answer_at_once(request.size_bytes)) return *answer;
  const uint64_t size_bytes = round_up(request.size_bytes, kPaddleUnitBytes);
  const uint32_t lane = cache_.lane_for(0, request.stream, false);
  NodeId node = take_best_fit(lane, size_bytes);
  if (node == kNoNode) node = grow(size_bytes, lane);
  if (node == kNoNode) return 0;
  return hand_out(upper_end(node, size_bytes), request);
}

NodeId Paddle::grow(uint64_t size_bytes, uint32_t lane) {
  const uint64_t chunk_bytes = std::max(size_bytes, settings_.auto_growth_chunk_size_in_mb * kMiB);
  if (settings_.free_when_no_cache_hit) give_back_idle(lane);
  NodeId chunk = take_chunk(chunk_bytes, lane);
  if (chunk != kNoNode) return chunk;
  cache_.count_retry();
  give_back_idle(lane);
  chunk = take_chunk(chunk_bytes, lane);
  if (chunk != kNoNode) return chunk;
  empty_cache();
  return take_chunk(chunk_bytes, lane);
}

NodeId Paddle::take_chunk(uint64_t bytes, uint32_t lane) {
  const uint64_t limit_bytes = settings_.gpu_memory_limit_mb * kMiB;
  const uint64_t reserved_bytes = cache_.usage().reserved_bytes;
  if (limit_bytes != 0 && reserved_bytes + bytes > limit_bytes) return kNoNode;
  return take_segment_within_limit(bytes, lane);
}

NodeId Paddle::upper_end(NodeId node, uint64_t size_bytes) {
  const uint64_t rest_bytes = cache_[node].size_bytes - size_bytes;
  if (rest_bytes == 0) return node;
  const NodeId upper = cache_.split(node, rest_bytes);
  cache_.put_free(node);
  return upper;
}

template <typename FreeBlock>
void Paddle::free_with(uint32_t block, FreeBlock free_block) {
  const NodeId node = cache_.node_of(block);
  if (node == kNoNode) return;
  const uint32_t lane = cache_[node].lane;
  free_block();
  if (settings_.free_idle_chunk) give_back_idle(lane);
}

void Paddle::free(uint32_t block, int64_t time_ns) {
  free_with(block, [&] { CachingBase::free(block, time_ns); });
}

void Paddle::complete(uint32_t block, int64_t time_ns) {
  free_with(block, [&] { CachingBase::complete(block, time_ns); });
}

void Paddle::give_back_idle(uint32_t lane) {
  for (const NodeId chunk : free_segments(lane)) give_back_segment(chunk);
}

void Paddle::empty_cache() { give_back_segments(cache_.default_group(false)); }

uint64_t Paddle::largest_free_bytes(const Request& request) const {
  return cache_.largest_free_bytes(0, request.stream, false);
}

std::span<const PeerKey> paddle_keys() { return kPaddleKeys; }

Result<PaddleSettings> parse_paddle_settings(Settings settings) {
  return parse_settings<PaddleSettings>("paddle", kPaddleKeys, settings, read);
}

std::unique_ptr<Allocator> make_paddle(Settings settings, const PeerContext& context) {
  return std::make_unique<Paddle>(parse_paddle_settings(settings).value(), context);
}

}  // namespace vram::replay
