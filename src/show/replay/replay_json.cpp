#include "show/replay/replay_json.hpp"

#include "replay/fidelity.hpp"

#include <utility>

namespace vram::show {
namespace {

using replay::ReplayResult;

Json json_oom(const Replayed& replayed, bool has_time) {
  if (!replayed.result.oom) return Json();
  const replay::ReplayOom& oom = *replayed.result.oom;
  Json json = {{"time_ns", has_time ? Json(oom.time_ns) : Json()},
               {"event", oom.event},
               {"step", json_or_null(replayed.oom_step)}};
  json.update(json_oom_sizes(oom));
  return json;
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

Json json_result(const Replayed& replayed, const ReplaySubject& subject) {
  const ReplayResult& result = replayed.result;
  Json json = json_replayed(result, replayed.is_recorded, subject.fidelity);
  json.update({{"min_capacity_bytes", json_or_null(result.min_capacity_bytes)},
               {"min_capacity_retries", json_or_null(result.min_capacity_retries)},
               {"oom", json_oom(replayed, subject.has_time)},
               {"curve", json_curve(result)}});
  return json;
}

}  // namespace

std::string replay_json(const ReplayReport& report) {
  Json results = Json::array();
  for (const Replayed& each : report.results) results.push_back(json_result(each, report));
  Json document = {{"schema", "vram.replay/1"}};
  document.update(json_subject(report));
  document["results"] = std::move(results);
  document["recorded"] = json_result(report.recorded, report);
  return document.dump(2) + "\n";
}

namespace {

using replay::ReplayResult;

std::string_view source_word(CapacitySource source) {
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

std::string_view start_word(replay::Start start) {
  switch (start) {
    case replay::Start::kBeginning:
      return "beginning";
    case replay::Start::kRecorded:
      return "recorded";
    case replay::Start::kModel:
      return "model";
  }
  return "unknown";
}

Json json_calls(const ReplayResult& result) {
  Json calls = Json::array();
  for (const replay::DriverCallCount& call : result.driver_calls) {
    calls.push_back(
        {{"name", json_text(call.name)}, {"count", call.count}, {"time_ns", call.time_ns}});
  }
  return calls;
}

}  // namespace

std::string_view basis_word(replay::Basis basis) {
  switch (basis) {
    case replay::Basis::kExact:
      return "exact";
    case replay::Basis::kEmulated:
      return "emulated";
    case replay::Basis::kEstimate:
      return "estimate";
    case replay::Basis::kModel:
      return "model";
  }
  return "unknown";
}

Json json_subject(const ReplaySubject& subject) {
  return {{"path", json_text(subject.path)},
          {"format", json_text(subject.format)},
          {"file_bytes", subject.file_bytes},
          {"truncated_at_byte", json_or_null(subject.truncated_at_byte)},
          {"device", subject.device},
          {"clock", subject.has_time ? "time" : "event_index"},
          {"events", subject.events},
          {"requests", subject.requests},
          {"recorded_calls", subject.fidelity.recorded_calls},
          {"reproduced_calls", subject.fidelity.matched_calls},
          {"is_reproduced", subject.fidelity.is_exact()},
          {"peak_is_before", subject.fidelity.peak_is_before},
          {"duration_ns", subject.has_time ? Json(subject.duration_ns) : Json()},
          {"capacity_bytes", json_or_null(subject.capacity_bytes)},
          {"capacity_source", source_word(subject.capacity_source)},
          {"recorded_limit_unknown", subject.recorded_limit_unknown},
          {"lag_ns", subject.lag_ns}};
}

Json json_replayed(const ReplayResult& result, bool is_recorded, const replay::Fidelity& fidelity) {
  return {{"allocator", json_text(result.allocator)},
          {"basis", basis_word(replay::basis_of(result, is_recorded, fidelity))},
          {"start", start_word(result.start)},
          {"start_reserved_bytes", result.start_reserved_bytes},
          {"model", result.model},
          {"model_note", result.model ? json_text(result.model_note) : Json()},
          {"is_recorded", is_recorded},
          {"completed", result.completed},
          {"caught_ooms", result.caught_ooms},
          {"layouts_tried", result.layouts_tried},
          {"layouts_completed", result.layouts_completed},
          {"made_calls", result.made_calls},
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
          {"driver_calls", json_calls(result)}};
}

Json json_oom_sizes(const replay::ReplayOom& oom) {
  return {{"requested_bytes", oom.requested_bytes},
          {"reserved_bytes", oom.reserved_bytes},
          {"allocated_bytes", oom.allocated_bytes},
          {"largest_free_bytes", oom.largest_free_bytes}};
}

}  // namespace vram::show
