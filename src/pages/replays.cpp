#include "pages/replays.hpp"

#include "replay/baseline.hpp"
#include "replay/fidelity.hpp"
#include "replay/program.hpp"
#include "replay/recorded_limit.hpp"
#include "replay/replay.hpp"
#include "show/replay/replay_json.hpp"

#include <algorithm>
#include <future>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::pages {
namespace {

using replay::AllocatorSpec;
using replay::ReplayResult;

// The recorded one first.
std::vector<AllocatorSpec> specs_of(const trace::Trace& trace,
                                    const explain::DeviceReport& report) {
  std::vector<AllocatorSpec> specs = {replay::recorded_spec(trace)};
  std::vector<std::string> texts = {std::string(replay::kExpandableSpec), "cuda_async", "vram"};
  if (report.what_if) {
    texts.clear();
    for (const explain::WhatIf& each : report.what_if->replays) texts.push_back(each.allocator);
  }
  for (const std::string& text : texts) {
    auto spec = replay::parse_spec(text);
    if (spec && std::ranges::find(specs, *spec) == specs.end()) specs.push_back(*std::move(spec));
  }
  return specs;
}

Json json_replay(const ReplayResult& result, bool is_recorded, const replay::Fidelity& fidelity) {
  Json times = Json::array();
  Json reserved = Json::array();
  for (const replay::CurvePoint& point : result.curve) {
    times.push_back(point.time_ns);
    reserved.push_back(point.reserved_bytes);
  }
  return {{"allocator", result.allocator},
          {"is_recorded", is_recorded},
          {"basis", show::basis_word(replay::basis_of(result, is_recorded, fidelity))},
          {"completed", result.completed && result.caught_ooms == 0},
          {"peak_reserved_bytes", result.peak_reserved_bytes},
          {"retries", result.retries},
          {"driver_time_ns", result.driver_time_ns},
          {"oom_time_ns", result.oom ? Json(result.oom->time_ns) : Json()},
          {"times_ns", std::move(times)},
          {"reserved_bytes", std::move(reserved)}};
}

}  // namespace

Json json_replays(const trace::Trace& trace, const trace::DeviceTrace& device,
                  const explain::DeviceReport& report) {
  constexpr uint64_t kMinEvents = 2;
  if (report.is_host || report.events < kMinEvents || report.events > kMaxReplayedEvents)
    return Json();
  const replay::Baseline baseline =
      replay::find_baseline(trace, device, replay::FoundBlocks(trace.tables));
  replay::Program program = replay::make_program(trace, device, baseline);
  const std::vector<AllocatorSpec> specs = specs_of(trace, report);
  const auto limit = replay::settle_recorded(program, specs.front());
  replay::ReplayOptions options = replay::options_under(limit, program);
  options.curve_slices = kCurveSlices;
  std::vector<std::future<Result<ReplayResult>>> running;
  for (const AllocatorSpec& spec : specs) {
    running.push_back(std::async(std::launch::async, [&program, &spec, &options] {
      return replay::replay(program, spec, options);
    }));
  }
  std::vector<ReplayResult> results;
  for (auto& each : running) results.push_back(each.get().value());
  const replay::Fidelity fidelity = replay::fidelity_of(program, results.front());
  Json replays = Json::array();
  for (size_t i = 0; i < results.size(); ++i)
    replays.push_back(json_replay(results[i], i == 0, fidelity));
  return {{"capacity_bytes", limit ? Json(limit->bytes) : Json()}, {"replays", std::move(replays)}};
}

}  // namespace vram::pages
