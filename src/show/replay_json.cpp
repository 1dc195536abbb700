#include "show/replay_json.hpp"

#include "show/json_replayed.hpp"

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

}  // namespace vram::show
