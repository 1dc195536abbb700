#include "explain/findings/findings_leaks.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/statistics.hpp"
#include "explain/findings/findings.hpp"
#include "explain/growth/trend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

constexpr double kMaxLeftNs = 1e18;  // about 30 years; more would overflow, and is left out

std::string leak_advice(const Growth& growth) {
  if (growth.stack.empty()) {
    return trf(
        "Something keeps these blocks from step to step. To see the line that allocates them, "
        "record with stacks: {}.",
        tr(kRecordStacks));
  }
  return trf(
      "Look at {}: what it makes is kept by a list, dict, attribute or closure; "
      "vram.why_alive(tensor) names what keeps one alive. Keep numbers, not tensors (loss.item()), "
      "or detached copies on the CPU (x.detach().cpu()): a tensor that requires grad keeps its "
      "whole graph alive.",
      growth.site);
}

// What all leaks come to: live bytes at the ends of the steady steps, whatever grew there.
double growth_at_step_ends(const Steps& steps) {
  std::vector<double> ends;
  for (size_t i = steps.warmup_count; i < steps.steps.size(); ++i) {
    ends.push_back(static_cast<double>(steps.steps[i].end_requested_bytes));
  }
  return sen_slope(ends).median;
}

bool is_reported(const Growth& growth, uint64_t peak) {
  return growth.kind == GrowthKind::kLeak &&
         growth.bytes_per_step * kLongRunSteps >= kMinLeakShare * static_cast<double>(peak);
}

std::string format_rate(double bytes) {
  return format_bytes(static_cast<uint64_t>(std::max(bytes, 0.0)));
}

// When the leak will have filled the device, or else doubled the peak.
std::string leak_outlook(const trace::Trace& trace, const DeviceReport& report,
                         const Growth& growth) {
  if (growth.steps_to_full) {
    const std::string steps = counted(*growth.steps_to_full, "step");
    std::vector<int64_t> durations;
    durations.reserve(report.steps.steps.size());
    for (const Step& step : report.steps.steps) durations.push_back(step.end_ns - step.begin_ns);
    const int64_t step_ns = median_of(std::move(durations));
    if (trace.has_time && step_ns > 0) {
      const double left_ns =
          static_cast<double>(*growth.steps_to_full) * static_cast<double>(step_ns);
      if (left_ns < kMaxLeftNs) {
        return trf(" At this rate the device is full in {}, after {}.", steps,
                   format_duration_ns(static_cast<int64_t>(left_ns)));
      }
    }
    return trf(" At this rate the device is full in {}.", steps);
  }
  const uint64_t peak = report.peak.requested.totals.requested_bytes;
  const auto per_step = static_cast<uint64_t>(std::max(growth.bytes_per_step, 1.0));
  const uint64_t doubled_after = peak / per_step + 1;
  if (doubled_after > kMaxDoublingSteps) return "";
  return trf(" At this rate the peak doubles in {}.", counted(doubled_after, "step"));
}

void find_leaks(const trace::Trace& trace, const DeviceReport& report, std::vector<Finding>* out) {
  const uint64_t peak = report.peak.requested.totals.requested_bytes;
  double unreported_total = growth_at_step_ends(report.steps);  // once is enough
  for (const Growth& g : report.growth) {
    if (!is_reported(g, peak)) continue;
    std::string detail = trf(
        "{} blocks from {} of {} steady steps are alive at the end, {} in all, the first from step "
        "{}; new ones come as often as before, {} to {} a step with 95 % confidence.",
        format_count(g.live_count), g.birth_steps, g.steady_steps, format_bytes(g.live_bytes),
        g.since_step, format_rate(g.bytes_per_step_low), format_rate(g.bytes_per_step_high));
    detail += leak_outlook(trace, report, g);
    const double total = std::exchange(unreported_total, 0);
    if (total >= 1) {
      detail += trf(" Live bytes at step ends rise by {} a step in all.", format_rate(total));
    }
    out->push_back({FindingKind::kLeak, g.live_bytes,
                    trf("Leak: {} a step from {}", format_rate(g.bytes_per_step), g.site),
                    std::move(detail), leak_advice(g)});
  }
}

// Without frees nothing distinguishes a leak from memory that is used.
void no_leak_verdict(const DeviceReport& report, std::vector<Finding>* out) {
  if (report.leak_verdict != LeakVerdict::kNoFrees || report.allocations == 0) return;
  out->push_back(
      {FindingKind::kRecording, 0, tr("No verdict on leaks: the recording contains no frees"),
       trf("{} allocations and not one free were recorded.", format_count(report.allocations)),
       tr("Record several complete steps, with a recorder that also records frees.")});
}

}  // namespace

void add_leak_findings(const trace::Trace& trace, const DeviceReport& report,
                       std::vector<Finding>* findings) {
  find_leaks(trace, report, findings);
  no_leak_verdict(report, findings);
}

}  // namespace vram::explain
