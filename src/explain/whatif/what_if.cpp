#include "explain/whatif/what_if.hpp"

#include "replay/fidelity.hpp"
#include "replay/recorded_limit.hpp"
#include "replay/replay.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

namespace vram::explain {
namespace {

using replay::AllocatorSpec;
using replay::Program;
using replay::ReplayOptions;
using replay::ReplayResult;

// A replay of the recorded settings that misses the recorded peak by more proves that something
// else decided: pools that the trace does not name, other programs on the device.
constexpr double kMostError = 0.02;

bool is_worth_asking(const DeviceReport& report) {
  if (report.is_host) return false;
  if (!report.ooms.empty()) return true;
  const Waste& waste = report.at_reserved_peak.waste;
  const auto unused =
      static_cast<double>(waste.stranded_bytes + waste.releasable_bytes + waste.rounding_bytes);
  const auto reserved = static_cast<double>(report.peak.reserved.totals.reserved_bytes);
  return reserved > 0 && unused >= kMinWhatIfShare * reserved;
}

// The recorded settings, the defaults, expandable segments; coarser sizes, which help where those
// are out of the question; the driver's own pool, and vram's.
std::vector<AllocatorSpec> specs_to_ask(const trace::Trace& trace) {
  std::vector<AllocatorSpec> specs = {replay::recorded_spec(trace)};
  for (const std::string_view text : {std::string_view("torch"), replay::kExpandableSpec,
                                      std::string_view("torch:roundup_power2_divisions=8"),
                                      std::string_view("cuda_async"), std::string_view("vram")}) {
    AllocatorSpec spec = replay::parse_spec(text).value();
    if (spec.to_string() != specs.front().to_string()) specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<ReplayResult> replay_all(const Program& program,
                                     const std::vector<AllocatorSpec>& specs,
                                     const ReplayOptions& options) {
  std::vector<ReplayResult> results(specs.size());
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < specs.size(); ++i) {
    threads.emplace_back(
        [&, i] { results[i] = replay::replay(program, specs[i], options).value(); });
  }
  threads.clear();  // joins
  return results;
}

// Also what the recorded program went on without: a report explains every OOM.
bool serves_all(const ReplayResult& result) { return result.completed && result.caught_ooms == 0; }

bool agrees(const ReplayResult& own, const DeviceReport& report) {
  const auto recorded = static_cast<double>(report.peak.reserved.totals.reserved_bytes);
  const auto replayed = static_cast<double>(own.peak_reserved_bytes);
  const bool same_end = serves_all(own) == report.ooms.empty();
  return same_end && std::abs(replayed - recorded) <= kMostError * recorded;
}

// The limit that the program met. Where none explains all its refusals, others filled the device at
// times: then the most that it was ever granted.
std::optional<replay::RecordedLimit> limit_of(Program& program, const AllocatorSpec& recorded) {
  const auto limit = replay::settle_recorded(program, recorded);
  if (limit || !program.limit_bounds.has_refused()) return limit;
  return replay::RecordedLimit{.bytes = program.largest_reserved_bytes, .is_fraction = false};
}

WhatIf told(const ReplayResult& result, bool is_recorded, const replay::Fidelity& fidelity) {
  WhatIf what_if{.allocator = result.allocator,
                 .is_recorded = is_recorded,
                 .basis = replay::basis_of(result, is_recorded, fidelity),
                 .completed = serves_all(result),
                 .peak_reserved_bytes = result.peak_reserved_bytes,
                 .retries = result.retries,
                 .driver_time_ns = result.driver_time_ns,
                 .oom_event = {}};
  if (const auto& first = result.caught_oom ? result.caught_oom : result.oom)
    what_if.oom_event = first->event;
  return what_if;
}

}  // namespace

std::optional<WhatIfs> find_what_ifs(const trace::Trace& trace, const trace::DeviceTrace& device,
                                     const DeviceReport& report) {
  if (!is_worth_asking(report)) return std::nullopt;
  Program program = replay::make_program(trace, device);
  ReplayOptions options;
  const std::vector<AllocatorSpec> specs = specs_to_ask(trace);
  if (const auto limit = limit_of(program, specs.front())) {
    options.capacity_bytes = limit->bytes;
    options.capacity_is_fraction = limit->is_fraction;
  }
  options.curve_slices = 0;
  const std::vector<ReplayResult> results = replay_all(program, specs, options);
  if (!agrees(results.front(), report)) return std::nullopt;
  WhatIfs answer;
  answer.fidelity = replay::fidelity_of(program, results.front());
  if (answer.fidelity.peak_is_before && results.front().completed) return std::nullopt;
  answer.capacity_bytes = options.capacity_bytes;
  for (const ReplayResult& result : results)
    answer.replays.push_back(told(result, answer.replays.empty(), answer.fidelity));
  return answer;
}

const WhatIf* what_if(const DeviceReport& report, std::string_view allocator) {
  if (!report.what_if) return nullptr;
  const auto found = std::ranges::find(report.what_if->replays, allocator, &WhatIf::allocator);
  return found == report.what_if->replays.end() ? nullptr : &*found;
}

const WhatIf* what_if_recorded(const DeviceReport& report) {
  return report.what_if ? &report.what_if->replays.front() : nullptr;
}

}  // namespace vram::explain
