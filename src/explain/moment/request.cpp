#include "explain/moment/request.hpp"

#include "base/bytes.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/state.hpp"
#include "explain/names/names.hpp"
#include "explain/site/scopes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

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
                index, ooms.size() == 1 ? "once" : fmt::format("{} times", ooms.size()));
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
