#include "show/report/report_json.hpp"

#include "base/result.hpp"
#include "base/text.hpp"
#include "show/names.hpp"
#include "show/replay/replay_json.hpp"
#include "show/report/breakdown.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace vram::show {
namespace {

using explain::DeviceReport;
using explain::Report;

Json json_file(const Report& report) {
  return {
      {"schema", "vram.report/1"},
      {"path", json_text(report.path)},
      {"format", json_text(report.format)},
      {"file_bytes", report.file_bytes},
      {"truncated_at_byte", report.truncated_at_byte ? Json(*report.truncated_at_byte) : Json()},
      {"clock", identifier(report.clock)},
      {"has_stacks", report.has_stacks}};
}

Json json_peak(const DeviceReport& device) {
  const explain::Peak& peak = device.peak;
  const auto requested = peak.requested.totals.requested_bytes;
  const auto reserved = peak.reserved.totals.reserved_bytes;
  const auto step = [&](const explain::Moment& moment) {
    const auto index = step_of(device.steps, moment.event);
    return index ? Json(*index) : Json();
  };
  return {{"requested_bytes", requested},
          {"allocated_bytes", peak.allocated.totals.allocated_bytes},
          {"active_bytes", peak.active.totals.active_bytes},
          {"reserved_bytes", reserved},
          {"utilization",
           reserved == 0 ? Json()
                         : Json(static_cast<double>(requested) / static_cast<double>(reserved))},
          {"time_ns", peak.requested.time_ns},
          {"event", peak.requested.event},
          {"step", step(peak.requested)},
          {"allocated_time_ns", peak.allocated.time_ns},
          {"allocated_event", peak.allocated.event},
          {"active_time_ns", peak.active.time_ns},
          {"active_event", peak.active.event},
          {"reserved_time_ns", peak.reserved.time_ns},
          {"reserved_event", peak.reserved.event},
          {"reserved_step", step(peak.reserved)}};
}

Json json_confidence(const explain::Verdict& verdict) {
  return {{"word", identifier(verdict.confidence)},
          {"phrase", phrase(verdict.confidence)},
          {"detail", json_text(verdict.detail)},
          {"mismatches", verdict.mismatches},
          {"assumed_segment_bytes", verdict.assumed_segment_bytes},
          {"before_recording_bytes", verdict.before_recording_bytes},
          {"before_recording_count", verdict.before_recording_count}};
}

Json json_step(const explain::Step& step, size_t index) {
  return {{"index", index},
          {"name", json_text(step.name)},
          {"first_event", step.first_event},
          {"event_count", step.event_count},
          {"begin_ns", step.begin_ns},
          {"end_ns", step.end_ns},
          {"peak_requested_bytes", step.peak_requested_bytes},
          {"peak_reserved_bytes", step.peak_reserved_bytes},
          {"peak_event", step.peak_event},
          {"end_requested_bytes", step.end_requested_bytes}};
}

Json json_phase(const explain::Phase& phase) {
  return {{"name", json_text(phase.name)},
          {"duration_ns", phase.duration_ns},
          {"peak_bytes", phase.peak_bytes},
          {"delta_bytes", phase.delta_bytes},
          {"allocated_bytes", phase.allocated_bytes}};
}

Json json_steps(const explain::Steps& steps) {
  Json items = Json::array();
  for (size_t i = 0; i < steps.steps.size(); ++i) items.push_back(json_step(steps.steps[i], i));
  Json phases = Json::array();
  for (const explain::Phase& phase : steps.phases) phases.push_back(json_phase(phase));
  return {{"source", identifier(steps.source)}, {"evidence", json_text(steps.evidence)},
          {"count", steps.steps.size()},        {"warmup", steps.warmup_count},
          {"items", std::move(items)},          {"phases", std::move(phases)}};
}

Json json_growth(const explain::Growth& growth) {
  return {{"kind", identifier(growth.kind)},
          {"site", json_text(growth.site)},
          {"stack", json_stack(growth.stack)},
          {"per_step_bytes", growth.bytes_per_step},
          {"per_step_low_bytes", std::llround(growth.bytes_per_step_low)},
          {"per_step_high_bytes", std::llround(growth.bytes_per_step_high)},
          {"rise_p_value", growth.rise_p_value},
          {"since_step", growth.since_step},
          {"steps_to_full", growth.steps_to_full ? Json(*growth.steps_to_full) : Json()},
          {"live_bytes", growth.live_bytes},
          {"live_count", growth.live_count},
          {"birth_steps", growth.birth_steps},
          {"steady_steps", growth.steady_steps},
          {"log10_lasting_ratio", growth.log10_lasting_ratio},
          {"sites_tested", growth.sites_tested},
          {"oldest_ns", growth.oldest_ns}};
}

Json json_oom(const explain::Oom& oom, const explain::Steps& steps, size_t top) {
  return {{"time_ns", oom.moment.time_ns},
          {"event", oom.moment.event},
          {"step", oom.step ? Json(*oom.step) : Json()},
          {"requested_bytes", oom.requested_bytes},
          {"device_free_bytes", oom.device_free_bytes},
          {"limit_bytes", oom.limit_bytes ? Json(*oom.limit_bytes) : Json()},
          {"largest_hole_bytes", oom.largest_hole_bytes},
          {"state", json_state(oom.state, steps, top)}};
}

// With top = 0, each of them would list all blocks of the program.
Json json_ooms(const DeviceReport& device, size_t top) {
  constexpr size_t kListedBetween = JsonOptions().top;
  Json ooms = Json::array();
  for (const explain::Oom& oom : device.ooms) {
    const bool is_between = &oom != &device.ooms.front() && &oom != &device.ooms.back();
    ooms.push_back(json_oom(oom, device.steps, top == 0 && is_between ? kListedBetween : top));
  }
  return ooms;
}

Json json_what_if(const explain::WhatIfs& what_if) {
  Json replays = Json::array();
  for (const explain::WhatIf& replay : what_if.replays) {
    replays.push_back({{"allocator", json_text(replay.allocator)},
                       {"is_recorded", replay.is_recorded},
                       {"is_recommended", replay.is_recommended},
                       {"basis", basis_word(replay.basis)},
                       {"model", replay.basis == replay::Basis::kModel},
                       {"completed", replay.completed},
                       {"peak_reserved_bytes", replay.peak_reserved_bytes},
                       {"retries", replay.retries},
                       {"driver_time_ns", replay.driver_time_ns},
                       {"oom_event", replay.oom_event ? Json(*replay.oom_event) : Json()}});
  }
  return {{"recorded_calls", what_if.fidelity.recorded_calls},
          {"reproduced_calls", what_if.fidelity.matched_calls},
          {"is_reproduced", what_if.fidelity.is_exact()},
          {"capacity_bytes", what_if.capacity_bytes ? Json(*what_if.capacity_bytes) : Json()},
          {"replays", std::move(replays)}};
}

Json json_finding(const explain::Finding& finding) {
  return {{"kind", identifier(finding.kind)},
          {"bytes", finding.bytes},
          {"title", json_text(finding.title)},
          {"detail", json_text(finding.detail)},
          {"advice", json_text(finding.advice)},
          {"line", finding.line.empty() ? Json() : json_text(finding.line)},
          {"peak_saved_bytes", finding.saves_bytes ? Json(*finding.saves_bytes) : Json()},
          {"reserved_saved_bytes",
           finding.saves_reserved_bytes ? Json(*finding.saves_reserved_bytes) : Json()}};
}

Json json_slice(const explain::TimelineSlice& slice) {
  return {{"begin_ns", slice.begin_ns},
          {"requested_bytes", slice.largest.requested_bytes},
          {"allocated_bytes", slice.largest.allocated_bytes},
          {"active_bytes", slice.largest.active_bytes},
          {"reserved_bytes", slice.largest.reserved_bytes}};
}

template <typename Item, typename ToJson>
Json json_array(const std::vector<Item>& items, ToJson&& to_json) {
  Json result = Json::array();
  for (const Item& item : items) result.push_back(to_json(item));
  return result;
}

// The waste at the reserved peak, since that is what has to fit on the device, and in addition that
// at the requested peak.
Json json_wastes(const DeviceReport& device) {
  const auto with_moment = [&](const explain::State& state) {
    Json result = json_waste(state.waste);
    result["time_ns"] = state.moment.time_ns;
    result["reserved_bytes"] = state.moment.totals.reserved_bytes;
    return result;
  };
  Json result = with_moment(device.at_reserved_peak);
  result["at_requested_peak"] = with_moment(device.at_peak);
  return result;
}

Json json_device(const DeviceReport& device, bool has_stacks, size_t top) {
  const explain::Steps& steps = device.steps;
  return {{"device", device.ordinal},
          {"kind", device.is_host ? "host" : "gpu"},
          {"events", device.events},
          {"allocations", device.allocations},
          {"frees", device.frees},
          {"device_allocs", device.device_allocs},
          {"device_frees", device.device_frees},
          {"stream_count", device.stream_count},
          {"pool_count", device.pool_count},
          {"begin_unix_ns", device.begin_unix_ns == 0 ? Json() : Json(device.begin_unix_ns)},
          {"duration_ns", device.duration_ns},
          {"confidence", json_confidence(device.verdict)},
          {"peak", json_peak(device)},
          {"holders", json_main_holders(device.at_peak, has_stacks, top)},
          {"waste", json_wastes(device)},
          {"steps", json_steps(steps)},
          {"leak_verdict", identifier(device.leak_verdict)},
          {"growth", json_array(device.growth, json_growth)},
          {"rest", device.rest ? json_rest(*device.rest) : Json()},
          {"marks", json_marks(device.marks)},
          {"oom_count", device.oom_count},
          {"ooms", json_ooms(device, top)},
          {"what_if", device.what_if ? json_what_if(*device.what_if) : Json()},
          {"findings", json_array(device.findings, json_finding)},
          {"at", device.at ? json_state(*device.at, steps, top) : Json()},
          {"at_peak", json_state(device.at_peak, steps, top)},
          {"at_reserved_peak", json_state(device.at_reserved_peak, steps, top)},
          {"timeline", json_array(device.timeline, json_slice)}};
}

Json json_notes(const Report& report) {
  return json_array(report.notes, [](const explain::NoteLine& note) {
    return Json{{"text", json_text(note.text)}, {"count", note.count}};
  });
}

Json json_settings(const Report& report) {
  Json settings = Json::object();
  for (const auto& [key, value] : report.settings) settings[valid_utf8(key)] = json_text(value);
  return settings;
}

}  // namespace

std::string report_json(const Report& report, const JsonOptions& options) {
  VRAM_CHECK(report.main_device < report.devices.size());
  Json document = json_file(report);
  Json devices = Json::array();
  for (const DeviceReport& device : report.devices)
    devices.push_back(json_device(device, report.has_stacks, options.top));
  // The main device's fields again at the top level: most recordings have one device.
  for (const auto& [key, value] : devices[report.main_device].items()) document[key] = value;
  document["settings"] = json_settings(report);
  document["notes"] = json_notes(report);
  document["devices"] = std::move(devices);
  return document.dump(2) + "\n";
}

namespace {

using explain::Breakdown;
using explain::Dimension;

Json json_holder(const explain::Holder& holder, Dimension by) {
  return {{"by", identifier(by)},
          {"name", json_text(holder.name)},
          {"requested_bytes", holder.requested_bytes},
          {"block_bytes", holder.block_bytes},
          {"count", holder.count},
          {"largest_bytes", holder.largest_bytes},
          {"oldest_ns", holder.oldest_ns},
          {"before_recording", holder.before_recording},
          {"stack", json_stack(holder.stack)}};
}

std::span<const explain::Holder> listed(const Breakdown& breakdown, size_t top) {
  const std::span<const explain::Holder> all = breakdown.holders;
  return top == 0 ? all : all.first(std::min(top, all.size()));
}

Json json_holders(const Breakdown& breakdown, size_t top) {
  Json holders = Json::array();
  for (const explain::Holder& holder : listed(breakdown, top))
    holders.push_back(json_holder(holder, breakdown.by));
  return holders;
}

// What --top left out, so that the sums still hold.
Json json_others(const Breakdown& breakdown, size_t top) {
  explain::Holder sum;
  for (const explain::Holder& holder :
       std::span(breakdown.holders).subspan(listed(breakdown, top).size())) {
    sum.requested_bytes += holder.requested_bytes;
    sum.block_bytes += holder.block_bytes;
    sum.count += holder.count;
  }
  return {{"requested_bytes", sum.requested_bytes},
          {"block_bytes", sum.block_bytes},
          {"count", sum.count}};
}

}  // namespace

Json json_stack(const std::vector<explain::Frame>& stack) {
  Json frames = Json::array();
  for (const explain::Frame& frame : stack) {
    frames.push_back({{"function", json_text(frame.function)},
                      {"file", json_text(frame.file)},
                      {"line", frame.line == 0 ? Json() : Json(frame.line)}});
  }
  return frames;
}

Json json_moment(const explain::Moment& moment, const explain::Steps& steps) {
  const auto step = step_of(steps, moment.event);
  return {{"time_ns", moment.time_ns},
          {"event", moment.event},
          {"step", step ? Json(*step) : Json()},
          {"requested_bytes", moment.totals.requested_bytes},
          {"allocated_bytes", moment.totals.allocated_bytes},
          {"active_bytes", moment.totals.active_bytes},
          {"reserved_bytes", moment.totals.reserved_bytes}};
}

Json json_waste(const explain::Waste& waste) {
  return {{"pending_bytes", waste.pending_bytes},
          {"pending_requested_bytes", waste.pending_requested_bytes},
          {"rounding_bytes", waste.rounding_bytes},
          {"releasable_bytes", waste.releasable_bytes},
          {"releasable_small_bytes", waste.releasable_small_bytes},
          {"releasable_side_bytes", waste.releasable_side_bytes},
          {"stranded_bytes", waste.stranded_bytes},
          {"pinned_bytes", waste.pinned_bytes},
          {"private_pool_bytes", waste.private_pool_bytes},
          {"hole_count", waste.hole_count},
          {"largest_hole_bytes", waste.largest_hole_bytes},
          {"largest_hole_domain", json_text(waste.largest_hole_domain)}};
}

Json json_pinners(const std::vector<explain::Pinner>& pinners) {
  Json result = Json::array();
  for (const explain::Pinner& pinner : pinners) {
    result.push_back({{"name", json_text(pinner.name)},
                      {"pinned_bytes", pinner.pinned_bytes},
                      {"stranded_bytes", pinner.stranded_bytes},
                      {"segment_count", pinner.segment_count}});
  }
  return result;
}

Json json_breakdowns(const explain::State& state, size_t top) {
  Json result = Json::array();
  for (const Breakdown& breakdown : state.breakdowns) {
    result.push_back({{"by", identifier(breakdown.by)},
                      {"holder_count", breakdown.holders.size()},
                      {"holders", json_holders(breakdown, top)},
                      {"others", json_others(breakdown, top)}});
  }
  return result;
}

Json json_main_holders(const explain::State& state, bool has_stacks, size_t top) {
  const Breakdown* main = main_breakdown(state, has_stacks);
  return main == nullptr ? Json::array() : json_holders(*main, top);
}

Json json_state(const explain::State& state, const explain::Steps& steps, size_t top) {
  Json result = json_moment(state.moment, steps);
  result["segment_count"] = state.segment_count;
  result["block_count"] = state.block_count;
  result["named_bytes"] = json_or_null(state.named_bytes);
  result["waste"] = json_waste(state.waste);
  result["breakdowns"] = json_breakdowns(state, top);
  result["pinners"] = json_pinners(state.pinners);
  return result;
}

}  // namespace vram::show
