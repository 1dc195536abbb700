#include "explain/whatif/what_if.hpp"

#include "replay/fidelity.hpp"
#include "replay/recorded_limit.hpp"
#include "replay/replay.hpp"
#include "replay/tune/tune.hpp"
#include "replay/tune/tune_space.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace vram::explain {
namespace {

using replay::AllocatorSpec;
using replay::Program;
using replay::ReplayOptions;
using replay::ReplayResult;
using replay::TuneCandidate;

// With fewer events there is no program to replay (history/verdict.cpp).
constexpr uint64_t kMinReplayedEvents = 2;

bool is_worth_trying(const DeviceReport& report) {
  if (report.is_host || report.events < kMinReplayedEvents) return false;
  if (!report.ooms.empty()) return true;
  const auto reserved = static_cast<double>(report.peak.reserved.totals.reserved_bytes);
  const auto assumed = static_cast<double>(report.verdict.assumed_segment_bytes);
  if (assumed >= kMinWasteShare * reserved) return false;
  const Waste& waste = report.at_reserved_peak.waste;
  const auto unused =
      static_cast<double>(waste.stranded_bytes + waste.releasable_bytes + waste.rounding_bytes);
  return unused >= kMinWasteShare * reserved;
}

// The recorded settings, the defaults, expandable segments; coarser sizes, which help where those
// are out of the question; the driver's own pool, and vram's.
std::vector<AllocatorSpec> specs_to_replay(const trace::Trace& trace) {
  std::vector<AllocatorSpec> specs = {replay::recorded_spec(trace)};
  for (const std::string_view text : {std::string_view("torch"), replay::kExpandableSpec,
                                      std::string_view("torch:roundup_power2_divisions=8"),
                                      std::string_view("cuda_async"), std::string_view("vram")}) {
    AllocatorSpec spec = replay::parse_spec(text).value();
    if (spec.to_string() != specs.front().to_string()) specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<TuneCandidate> replay_all(const Program& program,
                                      const std::vector<AllocatorSpec>& specs,
                                      const ReplayOptions& options) {
  std::vector<TuneCandidate> candidates(specs.size());
  // An exception (not enough memory) would end the process if it left its thread.
  std::vector<std::exception_ptr> failures(specs.size());
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < specs.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        candidates[i].spec = specs[i];
        candidates[i].result = replay::replay(program, specs[i], options).value();
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  threads.clear();  // joins
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  candidates.front().is_recorded = true;
  return candidates;
}

// Also requests without which the recorded program continued: a report explains every OOM.
bool serves_all(const ReplayResult& result) { return result.completed && result.caught_ooms == 0; }

bool agrees(const ReplayResult& own, const DeviceReport& report) {
  const auto recorded = static_cast<double>(report.peak.reserved.totals.reserved_bytes);
  const auto replayed = static_cast<double>(own.peak_reserved_bytes);
  const bool same_end = serves_all(own) == report.ooms.empty();
  return same_end && std::abs(replayed - recorded) <= kMaxReplayError * recorded;
}

bool needs_less(const ReplayResult& result, const ReplayResult& own) {
  return serves_all(result) && result.layouts_completed == result.layouts_tried &&
         (!serves_all(own) || result.peak_reserved_bytes < own.peak_reserved_bytes);
}

// The best setting of PyTorch, if it ranks before the recorded ones and needs less memory.
const TuneCandidate* best_of(const std::vector<TuneCandidate>& candidates, int64_t duration_ns) {
  std::vector<TuneCandidate> settings;
  std::ranges::copy_if(candidates, std::back_inserter(settings),
                       [](const TuneCandidate& each) { return each.spec.name == "torch"; });
  const TuneCandidate& own = candidates.front();
  if (own.spec.name != "torch") return nullptr;
  const replay::TuneRank rank(settings, duration_ns);
  const TuneCandidate* best = nullptr;
  for (const TuneCandidate& each : candidates) {
    const bool is_better = each.spec.name == "torch" && needs_less(each.result, own.result) &&
                           rank.class_of(each) < rank.class_of(own);
    if (is_better && (best == nullptr || rank.is_better(each, *best))) best = &each;
  }
  return best;
}

WhatIf as_what_if(const TuneCandidate& candidate, const replay::Fidelity& fidelity) {
  const ReplayResult& result = candidate.result;
  WhatIf what_if{.allocator = result.allocator,
                 .is_recorded = candidate.is_recorded,
                 .basis = replay::basis_of(result, candidate.is_recorded, fidelity),
                 .completed = serves_all(result),
                 .peak_reserved_bytes = result.peak_reserved_bytes,
                 .retries = result.retries,
                 .driver_time_ns = result.driver_time_ns,
                 .oom_event = {}};
  if (const auto& first = result.caught_oom ? result.caught_oom : result.oom)
    what_if.oom_event = first->event;
  return what_if;
}

// The device could have given what PyTorch's own limit forbade.
void name_limit(const replay::RecordedLimit& limit, Oom& oom) {
  const uint64_t given = oom.moment.totals.reserved_bytes;
  if (limit.is_fraction && oom.device_free_bytes > limit.bytes - std::min(given, limit.bytes))
    oom.limit_bytes = limit.bytes;
}

const WhatIf* first_if(const DeviceReport& report, bool WhatIf::* is) {
  if (!report.what_if) return nullptr;
  const auto found = std::ranges::find(report.what_if->replays, true, is);
  return found == report.what_if->replays.end() ? nullptr : &*found;
}

}  // namespace

void add_what_ifs(const trace::Trace& trace, const trace::DeviceTrace& device,
                  const replay::Baseline& baseline, DeviceReport& report) {
  if (!is_worth_trying(report)) return;
  Program program = replay::make_program(trace, device, baseline);
  const std::vector<AllocatorSpec> specs = specs_to_replay(trace);
  replay::TuneOptions options;
  bool limit_is_assumed = false;
  if (const auto limit = replay::settle_recorded(program, specs.front())) {
    options.capacity_bytes = limit->bytes;
    options.capacity_is_fraction = limit->is_fraction;
    limit_is_assumed = limit->is_assumed;
    for (Oom& oom : report.ooms) name_limit(*limit, oom);
  }
  ReplayOptions replay_options = replay::tune_replay_options(options);
  replay_options.max_driver_calls = replay::max_driver_calls_of(program);
  std::vector<TuneCandidate> candidates = replay_all(program, specs, replay_options);
  if (candidates.front().result.gave_up) return;
  std::erase_if(candidates, [](const TuneCandidate& each) { return each.result.gave_up; });
  const ReplayResult& own = candidates.front().result;
  if (!agrees(own, report)) return;
  const replay::Fidelity fidelity = replay::fidelity_of(program, own);
  if (fidelity.peak_is_before && own.completed) return;
  const TuneCandidate* best = best_of(candidates, program.duration_ns);
  WhatIfs& answer = report.what_if.emplace();
  answer.fidelity = fidelity;
  answer.capacity_bytes = options.capacity_bytes;
  answer.capacity_is_assumed = limit_is_assumed;
  for (const TuneCandidate& each : candidates) {
    answer.replays.push_back(as_what_if(each, fidelity));
    answer.replays.back().is_recommended = &each == best;
  }
}

const WhatIf* what_if(const DeviceReport& report, std::string_view allocator) {
  if (!report.what_if) return nullptr;
  const auto found = std::ranges::find(report.what_if->replays, allocator, &WhatIf::allocator);
  return found == report.what_if->replays.end() ? nullptr : &*found;
}

const WhatIf* what_if_recorded(const DeviceReport& report) {
  return first_if(report, &WhatIf::is_recorded);
}

const WhatIf* what_if_recommended(const DeviceReport& report) {
  return first_if(report, &WhatIf::is_recommended);
}

}  // namespace vram::explain
