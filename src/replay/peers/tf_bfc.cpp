#include "replay/peers/tf_bfc.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "replay/peers/settings.hpp"

#include <algorithm>
#include <array>

namespace vram::replay {
namespace {

constexpr std::array<PeerKey, 3> kTfBfcKeys{{
    {"allow_growth", "True|False"},
    {"garbage_collection", "True|False"},
    {"memory_fraction", "SHARE between 0 and 1"},
}};

constexpr uint64_t kTfBfcUnitBytes = 256;
constexpr uint64_t kFirstRegionBytes = 2 * kMiB;
constexpr uint64_t kMaxRemainderBytes = 128 * kMiB;
constexpr uint32_t kHeap = 0;  // the only lane

bool read(std::string_view key, std::string_view value, TfBfcSettings& to) {
  if (key == "allow_growth") return keep(read_truth(value), to.allow_growth);
  if (key == "garbage_collection") return keep(read_truth(value), to.garbage_collection);
  return keep(read_share(value), to.memory_fraction) && to.memory_fraction > 0;
}

bool splits(uint64_t chunk_bytes, uint64_t size_bytes) {
  return chunk_bytes >= 2 * size_bytes || chunk_bytes - size_bytes >= kMaxRemainderBytes;
}

// In single precision, as there: large sizes lose their low bits.
uint64_t a_tenth_less(uint64_t bytes) {
  const auto less = static_cast<uint64_t>(static_cast<float>(bytes) * 0.9F);
  return std::min(round_up(less, kTfBfcUnitBytes), bytes - kTfBfcUnitBytes);
}

uint64_t share_of(uint64_t bytes, double share) {
  return share < 1 ? static_cast<uint64_t>(static_cast<double>(bytes) * share) : bytes;
}

}  // namespace

TfBfc::TfBfc(const TfBfcSettings& settings, const PeerContext& context)
    : CachingBase(context.limit_bytes, context.program, context.segments),
      collects_garbage_(settings.garbage_collection),
      heap_bytes_(
          share_of(context.limit_bytes.value_or(gpu::kUnlimited), settings.memory_fraction)),
      region_bytes_(
          round_up(settings.allow_growth ? std::min(heap_bytes_, kFirstRegionBytes) : heap_bytes_,
                   kTfBfcUnitBytes)) {
  const uint32_t heap = cache_.lane_for(0, 0, false);
  VRAM_CHECK(heap == kHeap);
}

uint64_t TfBfc::malloc(const Request& request) {
  if (const auto answer = answer_at_once(request.size_bytes)) return *answer;
  const uint64_t size_bytes = round_up(request.size_bytes, kTfBfcUnitBytes);
  NodeId node = take_best_fit(kHeap, size_bytes);
  if (node == kNoNode && extend_somehow(size_bytes)) node = take_best_fit(kHeap, size_bytes);
  if (node == kNoNode) return 0;
  if (splits(cache_[node].size_bytes, size_bytes)) split_off_rest(node, size_bytes);
  return hand_out(node, request);
}

bool TfBfc::extend_somehow(uint64_t size_bytes) {
  return extend(size_bytes) || (give_back_regions(size_bytes) && extend(size_bytes));
}

bool TfBfc::extend(uint64_t size_bytes) {
  const uint64_t max_bytes = bytes_left() / kTfBfcUnitBytes * kTfBfcUnitBytes;
  if (size_bytes > max_bytes) return false;
  const bool is_raised = region_bytes_ < size_bytes;
  while (region_bytes_ < size_bytes) region_bytes_ *= 2;
  const NodeId region = take_region(std::min(region_bytes_, max_bytes), size_bytes);
  if (region == kNoNode) return false;
  // More than the heap is never asked for, so there is no need to count on.
  if (!is_raised) region_bytes_ = std::min(region_bytes_ * 2, gpu::kUnlimited);
  cache_.put_free(region);
  return true;
}

NodeId TfBfc::take_region(uint64_t bytes, uint64_t min_bytes) {
  for (; bytes >= min_bytes; bytes = a_tenth_less(bytes)) {
    const NodeId region = take_segment_within_limit(bytes, kHeap);
    if (region != kNoNode) return region;
  }
  return kNoNode;
}

// Only where what is free and what was never taken are enough together.
bool TfBfc::give_back_regions(uint64_t size_bytes) {
  if (!collects_garbage_) return false;
  const std::vector<NodeId> regions = free_segments(kHeap);
  uint64_t free_bytes = 0;
  for (const NodeId id : regions) free_bytes += cache_[id].size_bytes;
  if (free_bytes == 0 || size_bytes > bytes_left() + free_bytes) return false;
  for (const NodeId id : regions) give_back_segment(id);
  cache_.count_retry();
  return true;
}

uint64_t TfBfc::largest_free_bytes(const Request& request) const {
  static_cast<void>(request);  // one heap for all
  return cache_.largest_free_bytes(kHeap);
}

std::span<const PeerKey> tf_bfc_keys() { return kTfBfcKeys; }

Result<TfBfcSettings> parse_tf_bfc_settings(Settings settings) {
  return parse_settings<TfBfcSettings>("tf_bfc", kTfBfcKeys, settings, read);
}

bool tf_bfc_needs_capacity(Settings settings) {
  const Result<TfBfcSettings> parsed = parse_tf_bfc_settings(settings);
  return parsed && !parsed->allow_growth;
}

std::unique_ptr<Allocator> make_tf_bfc(Settings settings, const PeerContext& context) {
  return std::make_unique<TfBfc>(parse_tf_bfc_settings(settings).value(), context);
}

}  // namespace vram::replay
