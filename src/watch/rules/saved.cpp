#include "watch/rules/saved.hpp"

#include <algorithm>
#include <array>

namespace vram::watch {
namespace {

template <typename Value>
std::optional<Value> named(const std::string& name, std::initializer_list<Value> all) {
  const auto found =
      std::ranges::find_if(all, [&](Value value) { return identifier(value) == name; });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

std::optional<Measure> measure_of(const std::string& name) {
  const auto all = all_measures();
  const auto found = std::ranges::find(all, name, &MeasureFacts::name);
  return found == all.end() ? std::nullopt : std::optional(found->measure);
}

}  // namespace

Json to_json(const Alert& alert) {
  Json json = {{"id", alert.id},
               {"rule", alert.rule},
               {"measure", identifier(alert.measure)},
               {"severity", identifier(alert.severity)},
               {"state", identifier(alert.state)},
               {"is_unknown", alert.is_unknown},
               {"threshold", alert.threshold},
               {"since_unix_ns", alert.since_unix_ns},
               {"labels", alert.labels},
               {"summary", alert.summary},
               {"advice", alert.advice},
               {"annotations", alert.annotations}};
  if (alert.ending) json["ending"] = identifier(*alert.ending);
  put_if_any(json, "device", alert.device);
  put_if_any(json, "pid", alert.pid);
  put_if_any(json, "value", alert.value);
  put_if_any(json, "started_unix_ns", alert.started_unix_ns);
  put_if_any(json, "ended_unix_ns", alert.ended_unix_ns);
  return json;
}

std::optional<Alert> alert_of(const Json& json) {
  const auto measure = measure_of(json.at("measure").get<std::string>());
  const auto severity = named(json.at("severity").get<std::string>(),
                              {Severity::kInfo, Severity::kWarning, Severity::kCritical});
  const auto state =
      named(json.at("state"), {AlertState::kPending, AlertState::kFiring, AlertState::kResolved});
  if (!measure || !severity || !state) return std::nullopt;
  Alert alert;
  json.at("id").get_to(alert.id);
  json.at("rule").get_to(alert.rule);
  alert.measure = *measure;
  alert.severity = *severity;
  alert.state = *state;
  if (const auto ending = get_if_any<std::string>(json, "ending"))
    alert.ending =
        named(*ending, {Ending::kClear, Ending::kGone, Ending::kUnknown, Ending::kNoRule});
  alert.device = get_if_any<uint32_t>(json, "device");
  alert.pid = get_if_any<uint32_t>(json, "pid");
  alert.value = get_if_any<double>(json, "value");
  json.at("is_unknown").get_to(alert.is_unknown);
  json.at("threshold").get_to(alert.threshold);
  json.at("since_unix_ns").get_to(alert.since_unix_ns);
  alert.started_unix_ns = get_if_any<int64_t>(json, "started_unix_ns");
  alert.ended_unix_ns = get_if_any<int64_t>(json, "ended_unix_ns");
  json.at("labels").get_to(alert.labels);
  json.at("summary").get_to(alert.summary);
  json.at("advice").get_to(alert.advice);
  json.at("annotations").get_to(alert.annotations);
  return alert;
}

Json to_json(const Subject& subject) {
  return Json::array({subject.device, subject.source, subject.gpu_instance,
                      subject.compute_instance, subject.pid, subject.start_ticks, subject.xid});
}

Subject subject_of(const Json& json) {
  return {.device = json.at(0),
          .source = json.at(1),
          .gpu_instance = json.at(2),
          .compute_instance = json.at(3),
          .pid = json.at(4),
          .start_ticks = json.at(5),
          .xid = json.at(6)};
}

}  // namespace vram::watch
