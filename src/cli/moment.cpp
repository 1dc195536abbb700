#include "cli/moment.hpp"

#include "base/bytes.hpp"

#include <charconv>
#include <optional>
#include <string>

namespace vram::cli {
namespace {

using explain::DeviceReport;
using explain::Report;

std::optional<uint64_t> number_after(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = text.substr(prefix.size());
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

Result<Report> at_step(const trace::Trace& trace, const Report& report, uint64_t index,
                       explain::ExplainOptions options) {
  const auto& steps = report.devices[report.main_device].steps.steps;
  if (steps.empty())
    return fail(Code::kNotFound, "--at step:{}: no steps were found in this recording", index);
  if (index >= steps.size()) {
    return fail(Code::kNotFound, "--at step:{}: the recording has steps 0 to {}", index,
                steps.size() - 1);
  }
  options.at_event = steps[index].peak_event;
  return explain::explain(trace, options);
}

// A moment after the end would silently be the end.
Result<Report> within_the_recording(Report report, uint64_t time_ns) {
  const int64_t duration_ns = report.devices[report.main_device].duration_ns;
  if (static_cast<int64_t>(time_ns) <= duration_ns) return report;
  return fail(Code::kNotFound, "--at {}: the recording ends at {}",
              format_duration_ns(static_cast<int64_t>(time_ns)), format_duration_ns(duration_ns));
}

}  // namespace

Result<MomentRequest> parse_moment(std::string_view text) {
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
              "--at takes a time (1.5s, 250ms), event:N, step:N, peak, oom or oom:N; found '{}'",
              text);
}

Result<Report> explain_at(const trace::Trace& trace, const MomentRequest& request,
                          explain::ExplainOptions options) {
  if (request.kind == MomentKind::kTime) {
    if (!trace.has_time) {
      return fail(
          Code::kNotFound,
          "--at: this recording has no clock; name the moment as event:N, step:N, peak or oom");
    }
    options.at_ns = static_cast<int64_t>(request.value);
  }
  if (request.kind == MomentKind::kEvent) options.at_event = request.value;
  if (request.kind == MomentKind::kOom) options.at_oom = request.value;
  Result<Report> report = explain::explain(trace, options);
  if (!report) return report;
  if (request.kind == MomentKind::kTime) {
    return within_the_recording(std::move(*report), request.value);
  }
  if (request.kind == MomentKind::kStep) return at_step(trace, *report, request.value, options);
  if (request.kind == MomentKind::kPeak) {
    DeviceReport& device = report->devices[report->main_device];
    device.at = device.at_peak;
  }
  return report;
}

}  // namespace vram::cli
