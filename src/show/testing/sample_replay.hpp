// Made-up replays: the recorded settings waste much, expandable segments do not, a model is in
// between, and one runs out of memory.
#pragma once

#include "base/bytes.hpp"
#include "show/replay_report.hpp"

#include <string>

namespace vram::show::testing {

inline constexpr int64_t kReplaySecond = 1'000'000'000;

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
    result.curve.push_back({i * kReplaySecond / 10, share * 15 * kGiB / 100,
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
  replayed.result.oom = {4'711, 6 * kReplaySecond, 2 * kGiB, 20 * kGiB, 15 * kGiB, kGiB};
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
  report.duration_ns = 10 * kReplaySecond;
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

}  // namespace vram::show::testing
