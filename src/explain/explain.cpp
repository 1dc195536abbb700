#include "explain/explain.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "explain/findings/findings.hpp"
#include "explain/growth/growth.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/state.hpp"
#include "explain/names/names.hpp"
#include "explain/rest/marks.hpp"
#include "explain/rest/pinned.hpp"
#include "explain/rest/rest.hpp"
#include "explain/site/scopes.hpp"
#include "explain/steps/phases.hpp"
#include "explain/steps/steps.hpp"
#include "explain/waste/patterns.hpp"
#include "explain/whatif/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

void count_events(std::span<const trace::Event> events, DeviceReport& report) {
  using trace::EventKind;
  std::unordered_set<trace::StreamId> streams;
  std::unordered_set<trace::PoolId> pools;
  const trace::Event* last = nullptr;
  for (const trace::Event& event : events) {
    report.allocations += event.kind == EventKind::kAlloc;
    report.device_allocs +=
        event.kind == EventKind::kSegmentAlloc || event.kind == EventKind::kSegmentMap;
    report.device_frees +=
        event.kind == EventKind::kSegmentFree || event.kind == EventKind::kSegmentUnmap;
    if (last == nullptr || event.stream != last->stream) streams.insert(event.stream);
    if (last == nullptr || event.pool != last->pool) pools.insert(event.pool);
    last = &event;
  }
  report.stream_count = streams.size();
  report.pool_count = pools.size();
}

uint64_t count_frees(const History& history) {
  return static_cast<uint64_t>(std::ranges::count_if(history.lifetimes, [](const Lifetime& l) {
    return l.free_requested_event != kNever || l.free_completed_event != kNever;
  }));
}

void name_oom_steps(DeviceReport& report) {
  for (Oom& oom : report.ooms) {
    const auto& steps = report.steps.steps;
    const auto step = std::ranges::find_if(steps, [&](const Step& s) {
      const auto event = static_cast<uint64_t>(oom.moment.event);
      return event >= s.first_event && event < s.first_event + s.event_count;
    });
    if (step != steps.end()) oom.step = static_cast<uint64_t>(step - steps.begin());
  }
}

// A leak is assumed to grow into the memory that the allocator has not reserved, not into its
// cache.
void add_growth(GrowthResult found, DeviceReport& report) {
  report.leak_verdict = found.verdict;
  report.growth = std::move(found.sites);
  if (!report.memory_bytes || report.steps.steps.empty()) return;
  const uint64_t reserved = report.steps.steps.back().peak_reserved_bytes;
  const auto room =
      static_cast<double>(*report.memory_bytes - std::min(reserved, *report.memory_bytes));
  for (Growth& growth : report.growth) {
    if (growth.kind == GrowthKind::kLeak)
      growth.steps_to_full = static_cast<uint64_t>(room / growth.bytes_per_step);
  }
}

void explain_states(const Sources& sources, DeviceReport& report) {
  const std::array moments = {report.peak.requested.event, sources.curve.fullest.event};
  std::vector<State> states = states_after(sources, moments);
  report.at_peak = std::move(states[0]);
  report.at_reserved_peak = std::move(states[1]);
}

// Of all devices together: timelines are most of a report of many.
constexpr size_t kMaxSlices = 64'000;

uint32_t slices_of_each(const trace::Trace& trace, const ExplainOptions& options) {
  const size_t share = kMaxSlices / std::max<size_t>(1, trace.devices.size());
  return static_cast<uint32_t>(
      std::min<size_t>(options.timeline_slices, std::max<size_t>(1, share)));
}

// The stages of the work, and the share of it before each: measured on 10 million events.
struct Stage {
  std::string_view name;
  double begin;
};
constexpr Stage kHistoryStage = {tr_later("lifetimes of blocks"), 0};
constexpr Stage kCurveStage = {tr_later("peaks"), 0.22};
constexpr Stage kStatesStage = {tr_later("holders"), 0.3};
constexpr Stage kStepsStage = {tr_later("steps"), 0.36};
constexpr Stage kWhatIfStage = {tr_later("replays with other settings"), 0.45};

DeviceReport explain_device(const trace::Trace& trace, const trace::DeviceTrace& device,
                            const ExplainOptions& options) {
  // Devices come one after the other, each with its share of the events.
  const auto enter = [&](const Stage& stage) {
    if (!options.progress) return;
    const double before = static_cast<double>(device.first_event);
    const double own = stage.begin * static_cast<double>(device.event_count);
    options.progress(tr(stage.name), (before + own) / static_cast<double>(trace.events.size() + 1));
  };
  const std::span<const trace::Event> events = trace.events_of(device);
  const EventClock clock(trace, device);

  DeviceReport report;
  report.ordinal = device.ordinal;
  report.is_host = device.kind == trace::DeviceKind::kHost;
  report.memory_bytes = memory_bytes_of(trace, device);
  report.events = device.event_count;
  report.begin_unix_ns = clock.origin_unix_ns();
  count_events(events, report);

  enter(kHistoryStage);
  const replay::Baseline baseline =
      replay::find_baseline(trace, device, replay::FoundBlocks(trace.tables));
  const History history = replay_history(trace, device, baseline);
  enter(kCurveStage);
  const Curve curve = draw_curve(trace, device, history, clock, slices_of_each(trace, options));
  const Scopes scopes = build_scopes(trace, device);
  const Names names = find_names(trace, device, history);
  const Sources sources{trace, device, history, clock, curve, scopes, names};
  report.frees = count_frees(history);
  report.verdict = history.verdict;
  report.peak = curve.peak;
  report.duration_ns = curve.end_ns;
  report.timeline = curve.timeline;
  enter(kStatesStage);
  explain_states(sources, report);
  enter(kStepsStage);
  report.steps = find_steps(trace, device, history, scopes, clock.origin_unix_ns());
  report.steps.phases = find_phases(trace, device, history, scopes, report.steps);
  add_growth(find_growth(trace, device, history, report.steps, clock.origin_unix_ns(), names),
             report);
  report.oom_count = oom_events(events).size();
  report.ooms = find_ooms(sources);
  name_oom_steps(report);
  enter(kWhatIfStage);
  add_what_ifs(trace, device, baseline, report);
  report.rest = find_rest(trace, device, clock, history.initial_reserved_bytes);
  report.marks = find_marks(trace, device, report.steps, clock.origin_unix_ns());
  report.findings = find_findings(trace, device, report, find_patterns(sources, report, baseline));
  if (auto pinned = find_pinned_host(trace, device)) report.findings.push_back(*std::move(pinned));
  return report;
}

// The GPU with the largest peak.
size_t lead_by_default(const std::vector<DeviceReport>& devices) {
  const auto lead = std::ranges::max_element(devices, {}, [](const DeviceReport& device) {
    return std::pair(!device.is_host, device.peak.requested.totals.requested_bytes);
  });
  return static_cast<size_t>(lead - devices.begin());
}

Result<std::optional<size_t>> requested_device(const trace::Trace& trace,
                                               const ExplainOptions& options) {
  if (!options.device) return std::optional<size_t>();
  std::string known;
  for (size_t i = 0; i < trace.devices.size(); ++i) {
    const trace::DeviceTrace& device = trace.devices[i];
    if (device.kind != trace::DeviceKind::kGpu) continue;
    if (device.ordinal == *options.device) return std::optional<size_t>(i);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", device.ordinal);
  }
  return fail(Code::kNotFound, "device {} is not in the recording; it has device {}",
              *options.device, known.empty() ? "none" : known);
}

bool is_default(const trace::Setting& setting) {
  static const std::unordered_set<std::string> kPlain = {"", "-1", "0", "0.0", "false", "False"};
  if (setting.key == "pinned_num_register_threads") return setting.value == "1";
  return kPlain.contains(setting.value);
}

Process describe_process(const trace::Trace& trace) {
  Process process{.rank = number_about(trace, "rank"),
                  .world_size = number_about(trace, "world_size"),
                  .host = {}};
  const auto host = std::ranges::find(trace.about, "host", &trace::Setting::key);
  if (host != trace.about.end()) process.host = host->value;
  return process;
}

void describe_origin(const trace::Trace& trace, Report& report) {
  report.path = trace.origin.path;
  report.format = trace.origin.format;
  report.file_bytes = trace.origin.file_bytes;
  report.clock = trace.has_time ? Clock::kTime : Clock::kEventIndex;
  report.has_stacks = trace.has_stacks;
  report.process = describe_process(trace);
  report.truncated_at_byte = trace.origin.truncated_at_byte;
  for (const trace::Note& note : trace.origin.notes) {
    report.notes.push_back({std::string(tr(std::string_view(note.text))), note.count});
  }
  std::vector<trace::Setting> settings = trace.settings;
  std::ranges::stable_partition(settings, [](const auto& s) { return !is_default(s); });
  for (const trace::Setting& setting : settings) {
    report.settings.emplace_back(setting.key, setting.value);
  }
}

}  // namespace

Result<> check_contents(const trace::Trace& trace) {
  if (!trace.devices.empty()) return {};
  if (trace.origin.truncated_at_byte) {
    return fail(Code::kBadInput, "{}: truncated at byte {}, without a complete part before it",
                trace.origin.path, format_count(*trace.origin.truncated_at_byte));
  }
  return fail(
      Code::kBadInput,
      "{} has neither events nor segments of GPU memory: none was used, or recording (vram "
      "run --record, torch.cuda.memory._record_memory_history()) began too late; `vram demo` "
      "shows reports that need no GPU",
      trace.origin.path);
}

Result<Report> explain(const trace::Trace& trace, const ExplainOptions& options) {
  VRAM_TRY(check_contents(trace));
  VRAM_TRY_ASSIGN(const auto selected, requested_device(trace, options));
  Report report;
  describe_origin(trace, report);
  for (const trace::DeviceTrace& device : trace.devices)
    report.devices.push_back(explain_device(trace, device, options));
  keep_uneven_gpus(report.devices);
  report.main_device = selected.value_or(lead_by_default(report.devices));
  return report;
}

std::optional<uint64_t> number_about(const trace::Trace& trace, std::string_view key) {
  const auto found = std::ranges::find(trace.about, key, &trace::Setting::key);
  uint64_t number = 0;
  if (found == trace.about.end()) return std::nullopt;
  const char* const end = found->value.data() + found->value.size();
  const auto read = std::from_chars(found->value.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

std::optional<uint64_t> memory_bytes_of(const trace::Trace& trace,
                                        const trace::DeviceTrace& device) {
  const auto stated = number_about(trace, fmt::format("device.{}.memory_bytes", device.ordinal));
  return stated ? stated : usable_bytes(trace, device);
}

}  // namespace vram::explain
