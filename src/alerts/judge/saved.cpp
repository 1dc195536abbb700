#include "alerts/judge/saved.hpp"

#include "alerts/judge/judge_state.hpp"
#include "alerts/rules/rule.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace vram::alerts {
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

// A Judge's alerts and clocks as text, and back.

namespace {

constexpr int kForm = 1;

// What decides whether a rule of now is that one: has_same_name().
Json name_of(const Rule& rule) {
  return {{"name", rule.name},
          {"measure", identifier(rule.measure)},
          {"severity", identifier(rule.severity)},
          {"labels", rule.labels}};
}

Json to_json(const Phase::Times& times) {
  Json json = {
      {"since_ns", times.since_ns}, {"known_ns", times.known_ns}, {"is_firing", times.is_firing}};
  put_if_any(json, "clear_since_ns", times.clear_since_ns);
  return json;
}

Phase::Times times_of(const Json& json) {
  return {.since_ns = json.at("since_ns"),
          .known_ns = json.at("known_ns"),
          .clear_since_ns = get_if_any<uint64_t>(json, "clear_since_ns"),
          .is_firing = json.at("is_firing")};
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Null: nothing was saved.
Json parsed(const std::string& text) { return text.empty() ? Json() : Json::parse(text); }

}  // namespace

Json Judge::State::clock(const ClockReading& now) const {
  return {{"judge_ns", now.now_ns + static_cast<uint64_t>(ahead_ns)},
          {"now_ns", now.now_ns},
          {"unix_ns", now.unix_ns},
          {"boot", now.boot}};
}

std::string Judge::saved_figures(const ClockReading& now) const {
  Json figures = state_->measurer.save();
  figures["form"] = kForm;
  figures["clock"] = state_->clock(now);
  return dumped(figures);
}

std::string Judge::saved_alerts(const ClockReading& now) const {
  const State& state = *state_;
  Json cases = Json::array();
  for (const Ruled& ruled : state.rules) {
    for (const auto& [subject, one] : ruled.cases)
      cases.push_back({{"rule", name_of(ruled.rule)},
                       {"subject", to_json(subject)},
                       {"names", state.measurer.names_of(subject)},
                       {"times", to_json(one.phase.times())},
                       {"alert", to_json(one.alert)}});
  }
  Json orphans = Json::array();
  for (const Alert& alert : state.orphans) orphans.push_back(to_json(alert));
  Json resolved = Json::array();
  for (const State::Resolved& old : state.resolved)
    resolved.push_back({{"alert", to_json(old.alert)}, {"ended_ns", old.ended_ns}});
  return dumped({{"form", kForm},
                 {"clock", state.clock(now)},
                 {"cases", std::move(cases)},
                 {"orphans", std::move(orphans)},
                 {"resolved", std::move(resolved)}});
}

// A case that fires is waited for again: that nothing was known in between is no fault of its own.
void Judge::State::take_case(const Json& saved) {
  auto alert = alert_of(saved.at("alert"));
  if (!alert) return;
  Phase::Times times = times_of(saved.at("times"));
  if (times.is_firing) times.known_ns = now_ns;
  times.since_ns = std::min(times.since_ns, now_ns);
  times.known_ns = std::min(times.known_ns, now_ns);
  if (times.clear_since_ns) times.clear_since_ns = std::min(*times.clear_since_ns, now_ns);
  const Json& name = saved.at("rule");
  const auto same =
      std::ranges::find_if(rules, [&](const Ruled& ruled) { return name_of(ruled.rule) == name; });
  if (same != rules.end()) {
    Subject subject = subject_of(saved.at("subject"));
    measurer.renumber(subject, saved.at("names"));
    same->cases.insert_or_assign(subject, Case{Phase(times), *std::move(alert), 0});
  } else if (times.is_firing) {
    orphans.push_back(*std::move(alert));
  }
}

void Judge::State::take_over(const Json& saved) {
  for (const Json& one : saved.at("cases")) take_case(one);
  for (const Json& one : saved.at("orphans")) {
    if (auto alert = alert_of(one)) orphans.push_back(*std::move(alert));
  }
  for (const Json& one : saved.at("resolved")) {
    if (auto alert = alert_of(one.at("alert")))
      resolved.push_back({*std::move(alert), one.at("ended_ns")});
  }
}

Result<> Judge::restore(const SavedJudge& saved, const ClockReading& now) {
  auto state = std::make_unique<State>(state_->book, state_->options);
  state->set_rules(state_->book);
  state->now_ns = now.now_ns;
  try {
    const Json alerts = parsed(saved.alerts);
    const Json figures = parsed(saved.figures);
    for (const Json* const part : {&alerts, &figures}) {
      if (part->is_null()) continue;
      if (part->at("form") != kForm)
        return fail(Code::kUnsupported, "the alerts of before are of another form: expected {}",
                    kForm);
      const Json& clock = part->at("clock");
      const ClockReading then{
          .now_ns = clock.at("now_ns"), .unix_ns = clock.at("unix_ns"), .boot = clock.at("boot")};
      const uint64_t judge_ns = clock.at("judge_ns").get<uint64_t>() + passed_ns(then, now);
      state->now_ns = std::max(state->now_ns, judge_ns);
    }
    state->ahead_ns = static_cast<int64_t>(state->now_ns - now.now_ns);
    if (!figures.is_null())
      state->measurer.restore(figures, figures.at("clock").at("boot") == now.boot);
    if (!alerts.is_null()) state->take_over(alerts);
  } catch (const Json::exception& error) {
    return fail(Code::kBadInput, "the alerts of before can't be restored: {}", error.what());
  }
  state_ = std::move(state);
  return {};
}

}  // namespace vram::alerts
