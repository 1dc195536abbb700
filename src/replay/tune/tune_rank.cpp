#include "replay/tune/tune_rank.hpp"

#include "replay/tune/pytorch_conf.hpp"
#include "replay/tune/tune_space.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace vram::replay {
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
