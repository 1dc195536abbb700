#include "replay/tune/tune_space.hpp"

#include "base/bytes.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/registry.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <map>

namespace vram::replay {
namespace {

constexpr std::string_view kExpandable = "expandable_segments";
constexpr std::string_view kMaxSplit = "max_split_size_mb";
constexpr std::string_view kNonSplitRounding = "max_non_split_rounding_mb";
constexpr std::string_view kDivisions = "roundup_power2_divisions";
constexpr std::string_view kGarbage = "garbage_collection_threshold";
constexpr std::string_view kLargeSegment = "large_segment_size_mb";
constexpr uint64_t kDefaultSegmentMb = 20;
constexpr uint64_t kMinSplitMb = 21;
constexpr size_t kMaxClusters = 4;

uint64_t number_of(std::string_view text, uint64_t otherwise) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : otherwise;
}

// Sizes that lie close together.
struct Cluster {
  uint64_t min_mb = 0;  // of the smallest request, rounded down
  uint64_t max_mb = 0;  // of the largest
  double bytes = 0;     // asked for in sum
};

std::vector<Cluster> clusters_of(const std::map<uint64_t, double>& bytes_by_mb) {
  std::vector<Cluster> clusters;
  for (const auto& [mb, bytes] : bytes_by_mb) {
    if (clusters.empty() || mb > clusters.back().max_mb + clusters.back().max_mb / 8 + 1)
      clusters.push_back({.min_mb = mb, .max_mb = mb});
    clusters.back().max_mb = mb;
    clusters.back().bytes += bytes;
  }
  std::ranges::stable_sort(clusters, std::ranges::greater{}, &Cluster::bytes);
  if (clusters.size() > kMaxClusters) clusters.resize(kMaxClusters);
  return clusters;
}

// Whether every setting can act together with the others and PyTorch accepts them together.
bool makes_sense(const AllocatorSpec& spec, bool has_limit) {
  const bool has_split = !value_of(spec, kMaxSplit).empty();
  const bool collects = !value_of(spec, kGarbage).empty();
  if (!has_split && !value_of(spec, kNonSplitRounding).empty()) return false;
  if (collects && !has_limit) return false;
  // Garbage collection never touches expandable segments; with max_split_size their reserved memory
  // can grow without bound in programs that run longer than the recording (pytorch#193400).
  if (is_expandable(spec) && (has_split || collects)) return false;
  const uint64_t segment = number_of(value_of(spec, kLargeSegment), kDefaultSegmentMb);
  return !has_split || number_of(value_of(spec, kMaxSplit), 0) > segment;
}

AllocatorSpec changed(AllocatorSpec spec, std::string_view key, const std::string& value) {
  std::erase_if(spec.settings, [&](const auto& setting) { return setting.first == key; });
  if (!value.empty()) spec.settings.emplace_back(key, value);
  return normalised(std::move(spec));
}

}  // namespace

std::string_view value_of(const AllocatorSpec& spec, std::string_view key) {
  for (const auto& [name, value] : spec.settings) {
    if (name == key) return value;
  }
  return {};
}

bool is_expandable(const AllocatorSpec& spec) {
  const std::string_view value = value_of(spec, kExpandable);
  return value == "True" || value == "true" || value == "1";
}

AllocatorSpec normalised(AllocatorSpec spec) {
  const Peer* peer = find_peer(spec.name);
  if (peer == nullptr) return spec;
  std::ranges::stable_sort(spec.settings, {}, [&](const auto& setting) {
    return std::ranges::find(peer->keys, std::string_view(setting.first), &PeerKey::name);
  });
  return spec;
}

std::vector<uint64_t> split_sizes_mb(const Program& program) {
  std::map<uint64_t, double> bytes_by_mb;
  for (const Op& op : program.ops) {
    const uint64_t mb = op.size_bytes / kMiB;
    // A ladder up to twice the largest request stays within what the setting takes.
    if (op.kind == OpKind::kAlloc && mb >= kMinSplitMb && mb < kMaxSettingMebibytes / 2)
      bytes_by_mb[mb] += static_cast<double>(op.size_bytes);
  }
  std::vector<uint64_t> sizes;
  if (bytes_by_mb.empty()) return sizes;  // no block is ever that large: nothing would change
  const uint64_t largest = bytes_by_mb.rbegin()->first;
  for (uint64_t mb = 32; mb / 2 <= largest; mb *= 2) sizes.push_back(mb);
  for (const Cluster& cluster : clusters_of(bytes_by_mb)) {
    sizes.push_back(cluster.min_mb);
    sizes.push_back(cluster.max_mb + 1);
  }
  std::ranges::sort(sizes);
  sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
  return sizes;
}

TuneSpace::TuneSpace(const Program& program, bool has_limit)
    : split_mebibytes_(split_sizes_mb(program)), has_limit_(has_limit) {
  std::vector<std::string> splits;
  for (const uint64_t mb : split_mebibytes_) splits.push_back(std::to_string(mb));
  keys_ = {{kExpandable, {"True"}},
           {kMaxSplit, splits},
           {kNonSplitRounding, {"64", "256", "1024"}},
           {kDivisions, {"2", "4", "8", "16", "32"}},
           {kGarbage, {"0.6", "0.7", "0.8", "0.9"}},
           {kLargeSegment, {"32", "64", "128", "256"}}};
}

void TuneSpace::add_changed(const AllocatorSpec& spec, std::string_view key,
                            const std::string& value, std::vector<AllocatorSpec>& specs) const {
  AllocatorSpec next = changed(spec, key, value);
  if (makes_sense(next, has_limit_)) specs.push_back(std::move(next));
}

std::vector<AllocatorSpec> TuneSpace::grid() const {
  const AllocatorSpec plain{.name = "torch", .settings = {}};
  const AllocatorSpec expandable = changed(plain, kExpandable, "True");
  std::vector<AllocatorSpec> specs = {plain, expandable};
  for (const Key& key : keys_) {
    for (const std::string& value : key.values) {
      add_changed(plain, key.name, value, specs);
      add_changed(expandable, key.name, value, specs);
    }
  }
  return specs;
}

void TuneSpace::add_halfway(const AllocatorSpec& spec, std::vector<AllocatorSpec>& specs) const {
  const uint64_t mb = number_of(value_of(spec, kMaxSplit), 0);
  if (mb == 0 || split_mebibytes_.empty()) return;
  const auto above = std::ranges::upper_bound(split_mebibytes_, mb);
  const auto here = std::ranges::lower_bound(split_mebibytes_, mb);
  if (above != split_mebibytes_.end())
    add_changed(spec, kMaxSplit, std::to_string((mb + *above) / 2), specs);
  if (here != split_mebibytes_.begin())
    add_changed(spec, kMaxSplit, std::to_string((mb + *std::prev(here)) / 2), specs);
}

std::vector<AllocatorSpec> TuneSpace::neighbours(const AllocatorSpec& spec) const {
  std::vector<AllocatorSpec> specs;
  for (const Key& key : keys_) {
    if (!value_of(spec, key.name).empty()) add_changed(spec, key.name, "", specs);
    for (const std::string& value : key.values) {
      if (value_of(spec, key.name) != value) add_changed(spec, key.name, value, specs);
    }
  }
  add_halfway(spec, specs);
  return specs;
}

namespace {

constexpr int64_t kMinTimeStepNs = 10'000'000;

bool collects_garbage(const AllocatorSpec& spec) {
  return !value_of(spec, "garbage_collection_threshold").empty();
}

}  // namespace

TuneRank::TuneRank(std::span<const TuneCandidate> candidates, int64_t duration_ns)
    : time_step_ns_(std::max(duration_ns / 100, kMinTimeStepNs)) {
  min_reserved_ = std::numeric_limits<uint64_t>::max();
  min_time_ns_ = std::numeric_limits<int64_t>::max();
  for (const TuneCandidate& each : candidates) {
    if (each.is_recorded) recorded_collects_ = collects_garbage(each.spec);
    if (!each.result.completed) continue;
    min_reserved_ = std::min(min_reserved_, each.result.peak_reserved_bytes);
    min_time_ns_ = std::min(min_time_ns_, each.result.driver_time_ns);
  }
  reserved_step_ = std::max<uint64_t>(min_reserved_ / 100, 1);
}

TuneClass TuneRank::class_of(const TuneCandidate& candidate) const {
  const ReplayResult& result = candidate.result;
  // It acts only under a memory fraction, which the program has to set; one that was recorded with
  // the setting is taken to do so.
  const bool needs_code = collects_garbage(candidate.spec) && !recorded_collects_;
  if (!result.completed) {
    const uint64_t last = std::numeric_limits<uint64_t>::max();
    return {.ran_out = true,
            .left_undone = result.oom ? last - result.oom->event : last,
            .needs_code = needs_code};
  }
  const int64_t more_time_ns = result.driver_time_ns - min_time_ns_;
  return {.caught_ooms = result.caught_ooms,
          .is_unsure = result.layouts_completed < result.layouts_tried,
          .needs_code = needs_code,
          .reserved = (result.peak_reserved_bytes - min_reserved_) / reserved_step_,
          .driver_time = static_cast<uint64_t>(more_time_ns / time_step_ns_),
          .retries = static_cast<uint64_t>(std::bit_width(result.retries))};
}

bool TuneRank::is_better(const TuneCandidate& a, const TuneCandidate& b) const {
  const auto order = [&](const TuneCandidate& each) {
    return std::tuple(class_of(each), each.spec.settings.size(), setting_notes(each.spec).size(),
                      each.result.peak_reserved_bytes, each.result.driver_time_ns,
                      each.result.retries, each.spec.to_string());
  };
  return order(a) < order(b);
}

void TuneRank::sort(std::vector<TuneCandidate>& candidates) const {
  std::ranges::sort(candidates, [&](const auto& a, const auto& b) { return is_better(a, b); });
  size_t tier = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i > 0 && class_of(candidates[i]) != class_of(candidates[i - 1])) ++tier;
    candidates[i].tier = tier;
  }
}

}  // namespace vram::replay
