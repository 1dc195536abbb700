// A made-up Report in which every field is set, for tests of show/.
#pragma once

#include "base/time.hpp"
#include "explain/ranks/ranks.hpp"
#include "explain/report.hpp"

namespace vram::show::testing {

inline constexpr uint64_t kSampleGiB = uint64_t{1} << 30;
inline constexpr uint64_t kSampleMiB = uint64_t{1} << 20;

inline explain::Moment sample_moment(int64_t time_ns, int64_t event, uint64_t requested,
                                     uint64_t reserved) {
  return {time_ns, event, {requested, requested, requested + kSampleMiB, reserved}};
}

inline explain::State sample_state(const explain::Moment& moment) {
  explain::State state;
  state.moment = moment;
  state.waste = {.pending_bytes = kSampleMiB,
                 .rounding_bytes = 2 * kSampleMiB,
                 .releasable_bytes = 300 * kSampleMiB,
                 .stranded_bytes = 1500 * kSampleMiB,
                 .private_pool_bytes = 100 * kSampleMiB,
                 .hole_count = 42,
                 .largest_hole_bytes = 600 * kSampleMiB,
                 .largest_hole_domain = "default pool, default stream"};
  const uint64_t part = moment.totals.requested_bytes / 4;
  state.breakdowns = {
      {explain::Dimension::kUserFrame,
       {{"train.py:42 loss_fn", 2 * part, 2 * part, 12, part, kSignedSecondNs, false, {}},
        {"train.py:17 forward", part, part, 3, part, kSignedSecondNs, false, {}},
        {"before recording", part, part, 1, part, 0, true, {}}}},
      {explain::Dimension::kStack,
       {{"train.py:42 loss_fn",
         4 * part,
         4 * part,
         16,
         part,
         kSignedSecondNs,
         false,
         {{"loss_fn", "/home/user/train.py", 42}, {"<module>", "/home/user/train.py", 0}}}}},
      {explain::Dimension::kScope,
       {{"forward", 3 * part, 3 * part, 15, part, kSignedSecondNs, false, {}},
        {"backward", part, part, 1, part, kSignedSecondNs, false, {}}}}};
  state.pinners = {{"train.py:88 hook", 3 * kSampleMiB, 1200 * kSampleMiB, 12}};
  state.segment_count = 20;
  state.block_count = 16;
  return state;
}

inline explain::Steps sample_steps() {
  explain::Steps steps;
  steps.source = explain::StepSource::kRepetition;
  steps.evidence = "a pattern of 1,000 events, 10 times";
  steps.warmup_count = 2;
  for (uint64_t i = 0; i < 10; ++i) {
    const auto begin = static_cast<int64_t>(i) * kSignedSecondNs;
    steps.steps.push_back({"step " + std::to_string(i), i * 1000, 1000, begin,
                           begin + kSignedSecondNs, (i + 6) * kSampleGiB, (i + 7) * kSampleGiB,
                           i * 1000 + 500, i * kSampleGiB});
  }
  steps.phases = {{"rise", kSignedSecondNs / 2, 15 * kSampleGiB,
                   static_cast<int64_t>(9 * kSampleGiB), 20 * kSampleGiB},
                  {"fall", kSignedSecondNs / 2, 15 * kSampleGiB,
                   -static_cast<int64_t>(8 * kSampleGiB), kSampleGiB}};
  return steps;
}

inline explain::WhatIfs sample_what_if() {
  return {.fidelity = {.recorded_calls = 40, .made_calls = 40, .matched_calls = 40},
          .capacity_bytes = 24 * kSampleGiB,
          .replays = {{.allocator = "torch",
                       .is_recorded = true,
                       .basis = replay::Basis::kExact,
                       .completed = false,
                       .peak_reserved_bytes = 23 * kSampleGiB,
                       .retries = 3,
                       .driver_time_ns = 9'000'000,
                       .oom_event = 90},
                      {.allocator = "torch:expandable_segments=True",
                       .completed = true,
                       .peak_reserved_bytes = 16 * kSampleGiB,
                       .driver_time_ns = 21'000'000,
                       .oom_event = {}}}};
}

inline explain::DeviceReport sample_device(uint32_t ordinal) {
  explain::DeviceReport device;
  device.ordinal = ordinal;
  device.events = 10'000;
  device.allocations = 5'000;
  device.frees = 4'900;
  device.device_allocs = 97;
  device.device_frees = 3;
  device.begin_unix_ns = 1'795'250'000 * kSignedSecondNs;
  device.duration_ns = 10 * kSignedSecondNs;
  device.stream_count = 2;
  device.pool_count = 1;
  const explain::Moment requested =
      sample_moment(8 * kSignedSecondNs + 1, 8'500, 15 * kSampleGiB, 16 * kSampleGiB);
  const explain::Moment reserved =
      sample_moment(9 * kSignedSecondNs + 1, 9'500, 14 * kSampleGiB, 17 * kSampleGiB);
  device.peak = {requested, requested, requested, reserved};
  for (uint64_t i = 0; i < 100; ++i) {
    const uint64_t live = (i / 10 + 1 + i % 10 / 2) * kSampleGiB;
    device.timeline.push_back({static_cast<int64_t>(i) * kSignedSecondNs / 10,
                               {live, live, live, (7 + i / 10) * kSampleGiB}});
  }
  device.at_peak = sample_state(requested);
  device.at_reserved_peak = sample_state(reserved);
  device.at = sample_state(requested);
  device.steps = sample_steps();
  device.growth = {{.kind = explain::GrowthKind::kLeak,
                    .site = "train.py:88 hook",
                    .line = "train.py:88 hook",
                    .stack = {{"hook", "/home/user/train.py", 88}},
                    .bytes_per_step = 1.5 * kSampleMiB,
                    .bytes_per_step_low = 1.25 * kSampleMiB,
                    .bytes_per_step_high = 1.75 * kSampleMiB,
                    .rise_p_value = 0.0001,
                    .since_step = 1,
                    .steps_to_full = 40'000,
                    .live_bytes = 12 * kSampleMiB,
                    .live_count = 8,
                    .birth_steps = 8,
                    .steady_steps = 8,
                    .log10_lasting_ratio = 3,
                    .sites_tested = 5,
                    .oldest_ns = 3 * kSignedSecondNs}};
  device.what_if = sample_what_if();
  device.oom_count = 1;
  device.ooms = {{requested, 2 * kSampleGiB, kSampleMiB, 600 * kSampleMiB, 8,
                  sample_state(requested), 18 * kSampleGiB}};
  device.verdict = {explain::Confidence::kExact, "1,234 blocks in 97 segments agree", 0,
                    2 * kSampleMiB, 1};
  device.findings = {
      {explain::FindingKind::kFragmentation, 1500 * kSampleMiB,
       "1.46 GiB of reserved memory is stranded in 12 segments",
       "train.py:88 hook keeps 3 MiB alive in them.",
       "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."},
      {explain::FindingKind::kLeak, 12 * kSampleMiB, "train.py:88 hook leaks 1.5 MiB a step",
       "8 blocks of 8 steps are alive at the end.", "Detach what the hook stores."}};
  return device;
}

inline explain::Report sample_report() {
  explain::Report report;
  report.path = "runs/unet.pickle.xz";
  report.format = "PyTorch snapshot (pickle protocol 4, xz)";
  report.file_bytes = 350'684;
  report.has_stacks = true;
  report.truncated_at_byte = 123'456;
  report.notes = {{"unknown key 'colour'", 3}};
  report.settings = {{"expandable_segments", "False"}, {"max_split_size", "-1"}};
  report.devices = {sample_device(0)};
  return report;
}

// A comparison of two ranks made by hand: what tests of show/ draw.

inline explain::RankReport sample_ranks() {
  explain::RankReport report;
  report.ranks = {{.rank = 0,
                   .host = "node1",
                   .path = "runs/run.rank0.vtrace",
                   .peak_requested_bytes = 10 * kSampleGiB,
                   .peak_reserved_bytes = 12 * kSampleGiB,
                   .headroom_bytes = 68 * kSampleGiB,
                   .steps = 2},
                  {.rank = 3,
                   .host = "node2",
                   .path = "runs/run.rank3.vtrace",
                   .device = 1,
                   .peak_requested_bytes = 20 * kSampleGiB,
                   .peak_reserved_bytes = 23 * kSampleGiB,
                   .headroom_bytes = 57 * kSampleGiB,
                   .steps = 2,
                   .ooms = 1}};
  report.world_size = 4;
  report.worst = 1;
  report.worst_by = explain::RankMeasure::kHeadroom;
  report.category = {"activation", 15 * kSampleGiB, 6 * kSampleGiB};
  report.site = {"layers.7.mlp · activation", 5 * kSampleGiB, 2 * kSampleGiB};
  report.step = {"step 1", 20 * kSampleGiB, 9 * kSampleGiB};
  report.steps = {{"step 0", {10 * kSampleGiB, 8 * kSampleGiB}, 0},
                  {"step 1", {9 * kSampleGiB, 20 * kSampleGiB}, 1}};
  return report;
}

}  // namespace vram::show::testing
