#include "alerts/alerts_json.hpp"

#include "alerts/rules/rule.hpp"
#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/testing/hostile_text.hpp"
#include "base/testing/paths.hpp"
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace vram::alerts {
namespace {

constexpr int64_t kAlertTime = 1'795'338'845'000'000'000;  // 2026-11-22 09:14:05 UTC

Alert leak() {
  Alert alert;
  alert.id = "memory-leak/GPU-1/pid4711@5";
  alert.rule = "memory-leak";
  alert.measure = Measure::kProcessTimeToFull;
  alert.state = AlertState::kResolved;
  alert.ending = Ending::kGone;
  alert.device = 1;
  alert.pid = 4'711;
  alert.value = 7'200.5;
  alert.threshold = 86'400;
  alert.since_unix_ns = kAlertTime;
  alert.started_unix_ns = kAlertTime + 300'000'000'000;
  alert.ended_unix_ns = kAlertTime + 600'120'000'000;
  alert.labels = {{"alertname", "memory-leak"}, {"gpu", "1"}};
  alert.summary = "it grows";
  alert.advice = "record it";
  alert.annotations = {{"command", "python3 train.py"}};
  return alert;
}

Alert unknown() {
  Alert alert;
  alert.is_unknown = true;
  alert.summary = vram::testing::hostile_text();
  alert.labels = {{"user", vram::testing::hostile_text()}};
  return alert;
}

Json parsed_alerts(const std::vector<Alert>& alerts) {
  return Json::parse(alerts_json({kAlertTime, "node17"}, alerts));
}

TEST(AlertsJson, CarriesAlerts) {
  const Json json = parsed_alerts({leak()});
  EXPECT_EQ(json["schema"], "vram.alerts/1");
  EXPECT_EQ(json["time_unix_ns"], kAlertTime);
  EXPECT_EQ(json["host"], "node17");
  const Json& alert = json["alerts"][0];
  EXPECT_EQ(alert["state"], "resolved");
  EXPECT_EQ(alert["ending"], "gone");
  EXPECT_EQ(alert["severity"], "warning");
  EXPECT_EQ(alert["measure"], "process_time_to_full");
  EXPECT_EQ(alert["unit"], "seconds");
  EXPECT_EQ(alert["value"], 7'200.5);
  EXPECT_EQ(alert["pid"], 4'711);
  EXPECT_EQ(alert["labels"]["gpu"], "1");
  EXPECT_EQ(alert["ended_unix_ns"], kAlertTime + 600'120'000'000);
}

TEST(AlertsJson, UnknownIsNullAndTextsAreHarmless) {
  const std::string text = alerts_json({}, std::vector{unknown()});
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
  const Json json = Json::parse(text);
  EXPECT_TRUE(json["host"].is_null() && json["time_unix_ns"].is_null());
  const Json& alert = json["alerts"][0];
  for (const char* const name : {"device", "pid", "value", "ending", "started_unix_ns"})
    EXPECT_TRUE(alert[name].is_null()) << name;
  EXPECT_EQ(alert["summary"], valid_utf8(vram::testing::hostile_text()));
}

TEST(AlertsJson, IsDocumented) {
  const Json json = parsed_alerts({leak()});
  vram::testing::expect_documented("vram.alerts/1", json, {{"alerts", ""}, {"alert", "/alerts/0"}});
  vram::testing::expect_integers(json, "");
}

TEST(RulesJson, IsDocumentedAndWhole) {
  const RuleBook book = RuleBook::built_in();
  const Json json = Json::parse(rules_json(book));
  EXPECT_EQ(json["schema"], "vram.rules/1");
  ASSERT_EQ(json["rules"].size(), book.rules().size());
  EXPECT_EQ(json["rules"][0]["name"], "memory-almost-full");
  EXPECT_EQ(json["rules"][0]["threshold"], 0.95);
  EXPECT_EQ(json["rules"][0]["headroom_bytes"], 4 * kGiB);
  EXPECT_TRUE(json["rules"][0]["xids"].is_null());
  vram::testing::expect_documented("vram.rules/1", json, {{"rules", ""}, {"rule", "/rules/0"}});
  vram::testing::expect_integers(json, "");
}

// docs/alerts.md has a row for every rule, with its severity, and one for every measure.
TEST(RulesJson, EveryRuleAndMeasureIsExplained) {
  std::ifstream file(source_path("docs/alerts.md"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const RuleBook book = RuleBook::built_in();
  for (const Rule& rule : book.rules()) {
    const size_t row = text.find("| `" + rule.name + "` |");
    ASSERT_NE(row, std::string::npos) << rule.name;
    const std::string line = text.substr(row, text.find('\n', row) - row);
    EXPECT_NE(line.find(identifier(rule.severity)), std::string::npos) << rule.name;
  }
  for (const MeasureFacts& facts : all_measures())
    EXPECT_NE(text.find("| `" + std::string(facts.name) + "` |"), std::string::npos) << facts.name;
}

TEST(AlertLog, IsOneLineWhateverTheTexts) {
  const AlertsMoment moment{kAlertTime, vram::testing::hostile_text()};
  const std::string json = alert_log_json(moment, unknown());
  const std::string text = alert_log_text(moment, unknown());
  for (const char c : json) EXPECT_TRUE(c >= ' ' && c <= '~');
  for (const char c : text) EXPECT_TRUE(c < 0 || c >= ' ');
  EXPECT_EQ(Json::parse(json)["message"], valid_utf8(vram::testing::hostile_text()));
}

TEST(AlertLog, HasTheFieldsOfEcs) {
  const Json line = Json::parse(alert_log_json({kAlertTime + 5'000'000, "node17"}, leak()));
  EXPECT_EQ(line["@timestamp"], "2026-11-22T09:14:05.005Z");
  EXPECT_EQ(line["log.level"], "info");
  EXPECT_EQ(line["event.kind"], "alert");
  EXPECT_EQ(line["event.action"], "resolved");
  EXPECT_EQ(line["event.end"], "2026-11-22T09:24:05.120Z");
  EXPECT_EQ(line["rule.name"], "memory-leak");
  EXPECT_EQ(line["process.command_line"], "python3 train.py");
  EXPECT_EQ(line["process.pid"], 4'711);
}

TEST(AlertLog, SaysHowItEnded) {
  EXPECT_EQ(alert_log_text({kAlertTime, "node17"}, leak()),
            "2026-11-22 09:14:05 UTC node17 resolved (gone) warning memory-leak: it grows; do: "
            "record it");
}

}  // namespace
}  // namespace vram::alerts
