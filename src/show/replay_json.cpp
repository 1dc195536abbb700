#include "show/replay_json.hpp"

#include "show/json_state.hpp"

#include <string_view>

namespace vram::show {
namespace {

using replay::ReplayResult;

template <typename T>
Json json_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::string_view identifier(CapacitySource source) {
  switch (source) {
    case CapacitySource::kUnlimited:
      return "unlimited";
    case CapacitySource::kAsked:
      return "option";
    case CapacitySource::kRecorded:
      return "recording";
  }
  return "unknown";
}

Json json_oom(const Replayed& replayed, bool has_time) {
  if (!replayed.result.oom) return Json();
  const replay::ReplayOom& oom = *replayed.result.oom;
  return {{"time_ns", has_time ? Json(oom.time_ns) : Json()},
          {"event", oom.event},
          {"step", json_or_null(replayed.oom_step)},
          {"requested_bytes", oom.requested_bytes},
          {"reserved_bytes", oom.reserved_bytes},
          {"allocated_bytes", oom.allocated_bytes},
          {"largest_free_bytes", oom.largest_free_bytes}};
}

Json json_calls(const ReplayResult& result) {
  Json calls = Json::array();
  for (const replay::DriverCallCount& call : result.driver_calls) {
    calls.push_back(
        {{"name", json_text(call.name)}, {"count", call.count}, {"time_ns", call.time_ns}});
  }
  return calls;
}

Json json_curve(const ReplayResult& result) {
  Json curve = Json::array();
  for (const replay::CurvePoint& point : result.curve) {
    curve.push_back({{"time_ns", point.time_ns},
                     {"requested_bytes", point.requested_bytes},
                     {"reserved_bytes", point.reserved_bytes}});
  }
  return curve;
}

Json json_result(const Replayed& replayed, bool has_time) {
  const ReplayResult& result = replayed.result;
  return {{"allocator", json_text(result.allocator)},
          {"model", result.model},
          {"model_note", result.model ? json_text(result.model_note) : Json()},
          {"is_recorded", replayed.is_recorded},
          {"completed", result.completed},
          {"layouts_tried", result.layouts_tried},
          {"layouts_completed", result.layouts_completed},
          {"matched_calls", result.matched_calls},
          {"peak_reserved_bytes", result.peak_reserved_bytes},
          {"peak_active_bytes", result.peak_active_bytes},
          {"peak_allocated_bytes", result.peak_allocated_bytes},
          {"peak_requested_bytes", result.peak_requested_bytes},
          {"utilization", result.peak_reserved_bytes == 0 ? Json() : Json(result.utilization)},
          {"device_allocs", result.device_allocs},
          {"device_frees", result.device_frees},
          {"retries", result.retries},
          {"stream_waits", result.stream_waits},
          {"driver_time_ns", result.driver_time_ns},
          {"driver_calls", json_calls(result)},
          {"min_capacity_bytes", json_or_null(result.min_capacity_bytes)},
          {"min_capacity_retries", json_or_null(result.min_capacity_retries)},
          {"oom", json_oom(replayed, has_time)},
          {"curve", json_curve(result)}};
}

}  // namespace

std::string replay_json(const ReplayReport& report) {
  Json results = Json::array();
  for (const Replayed& each : report.results) results.push_back(json_result(each, report.has_time));
  const Json document = {{"schema", "vram.replay/1"},
                         {"path", json_text(report.path)},
                         {"format", json_text(report.format)},
                         {"file_bytes", report.file_bytes},
                         {"truncated_at_byte", json_or_null(report.truncated_at_byte)},
                         {"device", report.device},
                         {"clock", report.has_time ? "time" : "event_index"},
                         {"events", report.events},
                         {"requests", report.requests},
                         {"recorded_calls", report.recorded_calls},
                         {"duration_ns", report.has_time ? Json(report.duration_ns) : Json()},
                         {"capacity_bytes", json_or_null(report.capacity_bytes)},
                         {"capacity_source", identifier(report.capacity_source)},
                         {"recorded_limit_unknown", report.recorded_limit_unknown},
                         {"lag_ns", report.lag_ns},
                         {"results", std::move(results)},
                         {"recorded", json_result(report.recorded, report.has_time)}};
  return document.dump(2) + "\n";
}

}  // namespace vram::show
