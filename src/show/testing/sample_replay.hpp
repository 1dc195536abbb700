// Made-up replays: the recorded settings waste much, expandable segments do not, a model is in
// between, and one runs out of memory.
#pragma once

#include "base/bytes.hpp"
#include "base/time.hpp"
#include "show/replay/replay_report.hpp"

#include <string>
#include <string_view>

namespace vram::show::testing {

inline Replayed sample_replayed(std::string allocator, uint64_t reserved_bytes) {
  Replayed replayed;
  replay::ReplayResult& result = replayed.result;
  result.allocator = std::move(allocator);
  result.completed = true;
  result.layouts_completed = 1;
  result.peak_reserved_bytes = reserved_bytes;
  result.peak_active_bytes = 16 * kGiB;
  result.peak_allocated_bytes = 15 * kGiB + 512 * kMiB;
  result.peak_requested_bytes = 15 * kGiB;
  result.utilization = 15.0 * static_cast<double>(kGiB) / static_cast<double>(reserved_bytes);
  result.device_allocs = 90;
  result.device_frees = 12;
  result.driver_time_ns = 45'300'000;
  result.driver_calls = {{"cudaMalloc", 90, 44'100'000}, {"cudaFree", 12, 1'200'000}};
  for (int64_t i = 0; i < 100; ++i) {
    const auto share = static_cast<uint64_t>(i + 1);
    result.curve.push_back({i * kSignedSecondNs / 10, share * 15 * kGiB / 100,
                            std::min(2 * share, uint64_t{100}) * reserved_bytes / 100});
  }
  return replayed;
}

inline Replayed sample_oom(std::string allocator) {
  Replayed replayed = sample_replayed(std::move(allocator), 20 * kGiB);
  replayed.result.completed = false;
  replayed.result.layouts_completed = 0;
  replayed.result.capacity_bytes = 20 * kGiB;
  replayed.result.retries = 3;
  replayed.result.curve.resize(60);
  replayed.result.oom = {4'711, 6 * kSignedSecondNs, 2 * kGiB, 20 * kGiB, 15 * kGiB, kGiB};
  replayed.oom_step = 6;
  return replayed;
}

// One replay, of the recording's own settings.
inline ReplayReport sample_replay() {
  ReplayReport report;
  report.path = "runs/unet.pickle.xz";
  report.format = "PyTorch snapshot (pickle protocol 4, xz)";
  report.file_bytes = 350'684;
  report.events = 82'567;
  report.requests = 41'000;
  report.duration_ns = 10 * kSignedSecondNs;
  report.lag_ns = 10'000'000;
  report.recorded = sample_replayed("torch", 25 * kGiB);
  report.recorded.is_recorded = true;
  report.fidelity = {.recorded_calls = 102, .made_calls = 102, .matched_calls = 102};
  report.recorded.result.made_calls = report.recorded.result.matched_calls = 102;
  report.results = {report.recorded};
  return report;
}

inline ReplayReport sample_replays() {
  ReplayReport report = sample_replay();
  report.results.push_back(sample_replayed("torch:expandable_segments=True", 17 * kGiB));
  report.results[1].result.driver_time_ns = 120'000'000;
  report.results.push_back(sample_replayed("cuda_async", 19 * kGiB));
  report.results[2].result.model = true;
  report.results[2].result.model_note = "checked against peaks measured on one GPU";
  report.results[2].result.stream_waits = 7;
  return report;
}

// Hand-made results of the tuner: expandable segments help a program recorded with the defaults.

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
