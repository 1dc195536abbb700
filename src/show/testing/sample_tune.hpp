// Hand-made results of the tuner: expandable segments help a program recorded with the defaults.
#pragma once

#include "show/testing/sample_replay.hpp"
#include "show/tune_report.hpp"

#include <string>
#include <string_view>

namespace vram::show::testing {

inline replay::TuneCandidate sample_candidate(std::string_view spec, uint64_t reserved_bytes,
                                              size_t tier) {
  replay::TuneCandidate candidate;
  candidate.spec.name = "torch";
  if (const auto parsed = replay::parse_spec(spec)) {
    candidate.spec = *parsed;
  } else {
    candidate.spec.name = spec;
  }
  candidate.result = sample_replayed(std::string(spec), reserved_bytes).result;
  candidate.result.curve.clear();
  candidate.tier = tier;
  return candidate;
}

inline TuneReport sample_tune() {
  TuneReport report;
  static_cast<ReplaySubject&>(report) = sample_replay();
  replay::TuneResult& result = report.result;
  result.verdict = replay::TuneVerdict::kBetter;
  result.ranked = {
      sample_candidate("torch:expandable_segments=True", 17 * kGiB, 0),
      sample_candidate("torch:expandable_segments=True,large_segment_size_mb=64", 17 * kGiB, 0),
      sample_candidate("torch:roundup_power2_divisions=4", 20 * kGiB, 1),
      sample_candidate("torch", 25 * kGiB, 2),
      sample_candidate("torch:max_split_size_mb=128", 119 * kGiB, 3)};
  result.ranked[0].result.driver_time_ns = 120'000'000;
  result.recorded = 3;
  result.ranked[3].is_recorded = true;
  result.others = {sample_candidate("a_pool", 19 * kGiB, 0)};
  result.others[0].result.model = true;
  result.others[0].result.model_note = "checked against nothing";
  result.replays = 6;
  result.peak_live_bytes = 15 * kGiB;
  return report;
}

inline TuneReport sample_cannot_fit() {
  TuneReport report = sample_tune();
  report.capacity_bytes = 12 * kGiB;
  report.capacity_source = CapacitySource::kAsked;
  report.result.verdict = replay::TuneVerdict::kCannotFit;
  for (replay::TuneCandidate& each : report.result.ranked)
    each.result = sample_oom(each.result.allocator).result;
  explain::State state;
  state.moment.totals.requested_bytes = 15 * kGiB;
  explain::Breakdown breakdown;
  for (uint64_t i = 0; i < 5; ++i) {
    explain::Holder holder;
    holder.name = "train.py:" + std::to_string(10 + i) + " forward";
    holder.requested_bytes = (5 - i) * kGiB;
    holder.count = 12;
    breakdown.holders.push_back(holder);
  }
  state.breakdowns = {breakdown};
  report.at_peak = state;
  report.has_stacks = true;
  return report;
}

}  // namespace vram::show::testing
