#include "explain/moment/state.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "explain/history/heap.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/breakdown.hpp"
#include "explain/moment/curve.hpp"
#include "explain/names/names.hpp"
#include "explain/site/scopes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

constexpr std::array kDimensions = {Dimension::kStack, Dimension::kUserFrame, Dimension::kScope,
                                    Dimension::kSize,  Dimension::kStream,    Dimension::kAge,
                                    Dimension::kPool};

std::optional<uint64_t> named_bytes(const Sources& sources, const LiveSet& live) {
  const Names& names = sources.names;
  if (!names.has_labels() && !names.has_paths()) return std::nullopt;
  uint64_t bytes = 0;
  for (const uint32_t id : live.lifetimes)
    bytes += names.label(id) != 0 ? sources.history.lifetimes[id].requested_bytes : 0;
  return bytes;
}

std::optional<uint64_t> number_after(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = text.substr(prefix.size());
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

Result<uint64_t> event_of_step(const DeviceReport& report, uint64_t index) {
  const auto& steps = report.steps.steps;
  if (steps.empty())
    return fail(Code::kNotFound, "step:{}: no steps were found in this recording", index);
  if (index >= steps.size()) {
    return fail(Code::kNotFound, "step:{}: the recording has steps 0 to {}", index,
                steps.size() - 1);
  }
  return steps[index].peak_event;
}

Result<uint64_t> event_of_oom(std::span<const trace::Event> events, uint64_t index) {
  const std::vector<uint64_t> ooms = oom_events(events);
  if (ooms.empty())
    return fail(Code::kNotFound, "oom: nothing ran out of memory in this recording");
  if (index >= ooms.size()) {
    return fail(Code::kNotFound, "oom:{}: the recording ran out of memory {}, counted from 0",
                index, ooms.size() == 1 ? "once" : trf("{} times", ooms.size()));
  }
  return ooms[index];
}

Result<uint64_t> known_event(const DeviceReport& report, uint64_t event) {
  // A device without events has the memory at the end of the recording.
  const uint64_t last = std::max<uint64_t>(report.events, 1) - 1;
  if (event <= last) return event;
  return fail(Code::kNotFound, "event:{}: device {} has events 0 to {}", event, report.ordinal,
              format_count(last));
}

Result<uint64_t> event_at_time(const trace::Trace& trace, const DeviceReport& report,
                               const EventClock& clock, uint64_t time_ns) {
  const auto wanted_ns = static_cast<int64_t>(time_ns);
  const std::string wanted = format_duration_ns(wanted_ns);
  if (!trace.has_time) {
    return fail(Code::kNotFound,
                "{}: this recording has no clock; name the moment as event:N, step:N, peak or oom",
                wanted);
  }
  // A moment after the end would silently be the end.
  if (wanted_ns > report.duration_ns) {
    return fail(Code::kNotFound, "{}: the recording ends at {}", wanted,
                format_duration_ns(report.duration_ns));
  }
  if (const auto event = clock.event_at(wanted_ns)) return *event;
  return fail(Code::kNotFound, "{}: the first event of device {} is at {}", wanted, report.ordinal,
              format_duration_ns(clock.time_ns(0)));
}

Result<uint64_t> requested_event(const trace::Trace& trace, const trace::DeviceTrace& device,
                                 const DeviceReport& report, const EventClock& clock,
                                 const MomentRequest& request) {
  switch (request.kind) {
    case MomentKind::kTime:
      return event_at_time(trace, report, clock, request.value);
    case MomentKind::kStep:
      return event_of_step(report, request.value);
    case MomentKind::kOom:
      return event_of_oom(trace.events_of(device), request.value);
    case MomentKind::kEvent:
    case MomentKind::kPeak:
      break;
  }
  return known_event(report, request.value);
}

}  // namespace

namespace {

// Of profilers, whose stacks have operators (trace/import/foreign).
bool has_operators(const trace::Trace& trace) {
  const std::string_view format = trace.origin.format;
  return trace.has_stacks &&
         (format.find("torch.profiler") != format.npos || format.find("XProf") != format.npos);
}

}  // namespace

std::vector<State> states_after(const Sources& sources, std::span<const int64_t> events) {
  const AllocatorRules rules = rules_of(sources.trace, sources.device.kind);
  std::vector<State> states;
  for (const LiveSet& live : gather_live(sources.trace, sources.device, sources.history, events)) {
    State& state = states.emplace_back();
    state.moment = moment_after(sources.trace, sources.device, sources.history, sources.clock,
                                sources.curve, live.event);
    state.waste = measure_waste(sources, rules, live);
    state.pinners = find_pinners(sources, rules, live);
    state.segment_count = live.segments.ranges().size();
    state.block_count = live.lifetimes.size();
    state.named_bytes = named_bytes(sources, live);
    for (const Dimension by : kDimensions) {
      state.breakdowns.push_back(break_down(sources, live, by));
    }
    if (sources.names.has_labels())
      state.breakdowns.push_back(break_down(sources, live, Dimension::kCategory));
    if (has_operators(sources.trace))
      state.breakdowns.push_back(break_down(sources, live, Dimension::kOperator));
  }
  return states;
}

std::vector<uint64_t> oom_events(std::span<const trace::Event> events) {
  std::vector<uint64_t> found;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].kind == trace::EventKind::kOom) found.push_back(i);
  }
  return found;
}

std::vector<Oom> find_ooms(const Sources& sources) {
  const std::span<const trace::Event> events = sources.trace.events_of(sources.device);
  const std::vector<uint64_t> all = oom_events(events);
  if (all.empty()) return {};
  std::vector<int64_t> found(all.begin(), all.end());
  if (found.size() > kMaxOoms) {
    const auto half = static_cast<std::ptrdiff_t>(kMaxOoms / 2);
    found.erase(found.begin() + half, found.end() - half);
  }
  std::vector<State> states = states_after(sources, found);
  std::vector<Oom> ooms(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ooms[i].moment = states[i].moment;
    const trace::Event& event = events[static_cast<size_t>(found[i])];
    ooms[i].requested_bytes = event.size_bytes;
    ooms[i].device_free_bytes = event.address;
    ooms[i].largest_hole_bytes = states[i].waste.largest_hole_bytes;
    ooms[i].state = std::move(states[i]);
  }
  return ooms;
}

namespace {

// Indices of `events`, by rising event.
std::vector<size_t> order_of(std::span<const int64_t> events) {
  std::vector<size_t> order(events.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return events[a] < events[b]; });
  return order;
}

void gather_segments(const trace::Trace& trace, const trace::DeviceTrace& device,
                     const History& history, const std::vector<size_t>& order,
                     std::vector<LiveSet>& sets) {
  const std::span<const trace::Event> events = trace.events_of(device);
  SegmentMap now = history.initial_segments;
  auto ignored = history.ignored_segment_events.begin();
  uint64_t next = 0;
  for (const size_t at : order) {
    const uint64_t end = std::min<uint64_t>(static_cast<uint64_t>(sets[at].event + 1),
                                            history.lifetime_of_event.size());
    for (; next < end; ++next) {
      if (!is_segment_event(events[next].kind)) continue;
      if (ignored != history.ignored_segment_events.end() && *ignored == next) {
        ++ignored;
      } else {
        now.apply(events[next]);
      }
    }
    sets[at].segments = now;
  }
}

void gather_lifetimes(const History& history, const std::vector<size_t>& order,
                      std::vector<LiveSet>& sets) {
  for (uint32_t id = 0; id < history.lifetimes.size(); ++id) {
    const Lifetime& lifetime = history.lifetimes[id];
    const int64_t begin = lifetime.alloc_event == kBeforeRecording ? kBeforeFirstEvent
                                                                   : int64_t{lifetime.alloc_event};
    const int64_t end = lifetime.free_completed_event == kNever
                            ? INT64_MAX
                            : int64_t{lifetime.free_completed_event};
    auto at = std::partition_point(order.begin(), order.end(),
                                   [&](size_t i) { return sets[i].event < begin; });
    for (; at != order.end() && sets[*at].event < end; ++at) sets[*at].lifetimes.push_back(id);
  }
}

}  // namespace

std::vector<LiveSet> gather_live(const trace::Trace& trace, const trace::DeviceTrace& device,
                                 const History& history, std::span<const int64_t> events) {
  std::vector<LiveSet> sets(events.size());
  for (size_t i = 0; i < events.size(); ++i) sets[i].event = events[i];
  const std::vector<size_t> order = order_of(events);
  gather_segments(trace, device, history, order, sets);
  gather_lifetimes(history, order, sets);
  for (LiveSet& set : sets) {
    std::sort(set.lifetimes.begin(), set.lifetimes.end(), [&](uint32_t a, uint32_t b) {
      return history.lifetimes[a].address < history.lifetimes[b].address;
    });
  }
  return sets;
}

std::vector<SegmentView> view_segments(const History& history, const LiveSet& live) {
  std::vector<SegmentView> views;
  views.reserve(live.segments.ranges().size());
  size_t next = 0;
  const auto address_of = [&](size_t i) { return history.lifetimes[live.lifetimes[i]].address; };
  for (const auto& [address, range] : live.segments.ranges()) {
    while (next < live.lifetimes.size() && address_of(next) < address) ++next;
    const size_t first = next;
    while (next < live.lifetimes.size() && address_of(next) - address < range.size_bytes) ++next;
    views.push_back({address, range, first, next});
  }
  return views;
}

Result<MomentRequest> parse_moment(std::string_view option, std::string_view text) {
  if (text == "peak") return MomentRequest{MomentKind::kPeak};
  if (text == "oom") return MomentRequest{MomentKind::kOom};
  if (const auto index = number_after("oom:", text)) return MomentRequest{MomentKind::kOom, *index};
  if (const auto index = number_after("step:", text))
    return MomentRequest{MomentKind::kStep, *index};
  if (const auto event = number_after("event:", text))
    return MomentRequest{MomentKind::kEvent, *event};
  if (const auto time_ns = parse_duration_ns(text)) {
    return MomentRequest{MomentKind::kTime, static_cast<uint64_t>(*time_ns)};
  }
  return fail(Code::kBadInput,
              "{} takes a time (1.5s, 250ms), event:N, step:N, peak, oom or oom:N; found '{}'",
              option, text);
}

Result<State> find_state(const trace::Trace& trace, const Report& report, size_t device,
                         const MomentRequest& request) {
  const DeviceReport& explained = report.devices[device];
  if (request.kind == MomentKind::kPeak) return explained.at_peak;
  const trace::DeviceTrace& recorded = trace.devices[device];
  const EventClock clock(trace, recorded);
  VRAM_TRY_ASSIGN(const uint64_t event,
                  requested_event(trace, recorded, explained, clock, request));
  const History history = replay_history(trace, recorded);
  const Curve curve = draw_curve(trace, recorded, history, clock, 1);
  const Scopes scopes = build_scopes(trace, recorded);
  const Names names = find_names(trace, recorded, history);
  const std::vector<int64_t> moments = {static_cast<int64_t>(event)};
  return std::move(
      states_after({trace, recorded, history, clock, curve, scopes, names}, moments).front());
}

}  // namespace vram::explain
