#include "alerts/alerts_json.hpp"

#include "alerts/rules/rule.hpp"
#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <map>

namespace vram::alerts {
namespace {

constexpr std::string_view kEcsVersion = "8.11.0";

std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', true, Json::error_handler_t::replace);
}

Json json_map(const std::map<std::string, std::string>& texts) {
  Json json = Json::object();
  for (const auto& [name, text] : texts) json[name] = json_text(text);
  return json;
}

Json json_time(const std::optional<int64_t>& time_unix_ns) { return json_or_null(time_unix_ns); }

Json json_alert(const Alert& alert) {
  return {{"id", json_text(alert.id)},
          {"rule", json_text(alert.rule)},
          {"state", identifier(alert.state)},
          {"severity", identifier(alert.severity)},
          {"ending", alert.ending ? Json(identifier(*alert.ending)) : Json()},
          {"device", json_or_null(alert.device)},
          {"pid", json_or_null(alert.pid)},
          {"measure", identifier(alert.measure)},
          {"unit", identifier(facts_of(alert.measure).unit)},
          {"value", json_or_null(alert.value)},
          {"is_unknown", alert.is_unknown},
          {"threshold", alert.threshold},
          {"since_unix_ns", alert.since_unix_ns},
          {"started_unix_ns", json_time(alert.started_unix_ns)},
          {"ended_unix_ns", json_time(alert.ended_unix_ns)},
          {"summary", json_text(alert.summary)},
          {"advice", json_text(alert.advice)},
          {"labels", json_map(alert.labels)},
          {"annotations", json_map(alert.annotations)}};
}

template <typename T>
Json json_if(bool has, const T& value) {
  return has ? Json(value) : Json();
}

Json json_rule(const Rule& rule) {
  const MeasureFacts& facts = facts_of(rule.measure);
  const bool has_threshold = facts.unit != Unit::kFlag;
  return {{"name", json_text(rule.name)},
          {"is_enabled", rule.is_enabled},
          {"severity", identifier(rule.severity)},
          {"measure", facts.name},
          {"meaning", facts.meaning},
          {"unit", identifier(facts.unit)},
          {"holds_below", facts.holds_below},
          {"threshold", json_if(has_threshold, rule.threshold)},
          {"clear", json_if(has_threshold, rule.clear)},
          {"for_ns", rule.for_ns},
          {"clear_for_ns", rule.clear_for_ns},
          {"unknown_for_ns", rule.unknown_for_ns},
          {"window_ns", json_if(facts.has_window, rule.window_ns)},
          {"at_least_bytes", json_if(facts.has_at_least, rule.at_least_bytes)},
          {"headroom_bytes", json_if(facts.has_headroom, rule.headroom_bytes)},
          {"xids", json_if(facts.has_xids, rule.xids)},
          {"reasons", json_if(facts.has_reasons, rule.reasons)},
          {"summary", json_text(rule.summary)},
          {"advice", json_text(rule.advice)},
          {"labels", json_map(rule.labels)}};
}

Json document_of(std::string_view schema, const AlertsMoment& moment) {
  return {{"schema", schema},
          {"time_unix_ns", moment.time_unix_ns == 0 ? Json() : Json(moment.time_unix_ns)},
          {"host", moment.host.empty() ? Json() : json_text(moment.host)}};
}

std::string_view level_of(const Alert& alert) {
  if (alert.state == AlertState::kResolved) return "info";
  if (alert.severity == Severity::kCritical) return "error";
  return alert.severity == Severity::kWarning ? "warn" : "info";
}

}  // namespace

std::string alerts_json(const AlertsMoment& moment, std::span<const Alert> alerts) {
  return alerts_json(moment, alerts, Silences());
}

std::string alerts_json(const AlertsMoment& moment, std::span<const Alert> alerts,
                        const Silences& silences) {
  Json document = document_of("vram.alerts/1", moment);
  document["alerts"] = Json::array();
  for (const Alert& alert : alerts) {
    Json json = json_alert(alert);
    const Silence* const silence = silences.find(alert, moment.time_unix_ns);
    json["silence"] = silence == nullptr ? Json() : Json(silence->number);
    document["alerts"].push_back(std::move(json));
  }
  return dumped(document, 2) + "\n";
}

std::string silences_json(const AlertsMoment& moment, const Silences& silences) {
  Json document = document_of("vram.silences/1", moment);
  document["silences"] = Json::array();
  for (const Silence& silence : silences.all())
    document["silences"].push_back(json_silence(silence));
  return dumped(document, 2) + "\n";
}

std::string rules_json(const RuleBook& book) {
  Json document = {{"schema", "vram.rules/1"}, {"rules", Json::array()}};
  for (const Rule& rule : book.rules()) document["rules"].push_back(json_rule(rule));
  return dumped(document, 2) + "\n";
}

std::string alert_log_json(const AlertsMoment& moment, const Alert& alert) {
  Json line = {{"@timestamp", rfc3339(moment.time_unix_ns)},
               {"log.level", level_of(alert)},
               {"message", json_text(alert.summary)},
               {"ecs.version", kEcsVersion},
               {"event.kind", "alert"},
               {"event.module", "vram"},
               {"event.action", identifier(alert.state)},
               {"event.id", json_text(alert.id)},
               {"rule.name", json_text(alert.rule)},
               {"rule.description", json_text(alert.advice)},
               {"host.name", json_text(moment.host)}};
  if (alert.started_unix_ns) line["event.start"] = rfc3339(*alert.started_unix_ns);
  if (alert.ended_unix_ns) line["event.end"] = rfc3339(*alert.ended_unix_ns);
  if (alert.ending) line["event.reason"] = identifier(*alert.ending);
  if (alert.pid) line["process.pid"] = *alert.pid;
  if (const auto command = alert.annotations.find("command"); command != alert.annotations.end())
    line["process.command_line"] = json_text(command->second);
  line["labels"] = json_map(alert.labels);
  line["vram.alert"] = {{"severity", identifier(alert.severity)},
                        {"value", json_or_null(alert.value)},
                        {"threshold", alert.threshold},
                        {"unit", identifier(facts_of(alert.measure).unit)}};
  return dumped(line, -1);
}

std::string alert_log_text(const AlertsMoment& moment, const Alert& alert) {
  const std::string state =
      alert.ending ? fmt::format("{} ({})", identifier(alert.state), identifier(*alert.ending))
                   : std::string(identifier(alert.state));
  return fmt::format("{} {} {} {} {}: ", clock_text(moment.time_unix_ns), printable(moment.host),
                     state, identifier(alert.severity), printable(alert.rule)) +
         trf("{}; do: {}", printable(alert.summary), printable(alert.advice));
}

}  // namespace vram::alerts
