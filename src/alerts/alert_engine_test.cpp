#include "alerts/alert_engine.hpp"

#include "alerts/testing/samples.hpp"
#include "base/json.hpp"
#include "history/testing/history_samples.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace vram::alerts {
namespace {

using alerts::testing::healthy_device;
using alerts::testing::kBeginning;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What the notifier's thread wrote.
struct Written {
  std::mutex mutex;
  std::condition_variable more;
  std::vector<std::string> lines;

  void add(std::string_view line) {
    const std::lock_guard guard(mutex);
    lines.emplace_back(line);
    more.notify_all();
  }
  std::vector<std::string> once_there_are(size_t count) {
    std::unique_lock lock(mutex);
    if (!more.wait_for(lock, std::chrono::seconds(60), [&] { return lines.size() >= count; }))
      throw std::runtime_error(
          fmt::format("waited for {} lines of the log, got {}", count, lines.size()));
    return lines;
  }
};

class AlertEngineTest : public ::testing::Test {
 protected:
  std::shared_ptr<AlertEngine> open(const std::string& rules_file = "", uint64_t second = 0) {
    AlertEngineOptions options;
    options.rules_file = rules_file;
    options.receivers.write = [written = written_](std::string_view line) { written->add(line); };
    options.receivers.webhooks = webhooks_;
    options.host = "node17";
    options.history = history_;
    options.now = {.now_ns = second * kSecondNs,
                   .unix_ns = kBeginning + static_cast<int64_t>(second * kSecondNs),
                   .boot = 1};
    return AlertEngine::open(std::move(options)).value();
  }

  // `second` after the beginning.
  static watch::Sampled sample(uint64_t second, std::vector<watch::XidCount> xids = {}) {
    watch::Sampled sampled;
    sampled.begin_ns = second * kSecondNs;
    sampled.snapshot.time_ns = kBeginning + static_cast<int64_t>(second * kSecondNs);
    sampled.snapshot.host = "node17";
    sampled.snapshot.devices = {healthy_device()};
    sampled.snapshot.devices[0].xids = std::move(xids);
    return sampled;
  }

  static std::vector<std::string> rules_in(const AlertEngine& engine, const std::string& state) {
    std::vector<std::string> rules;
    const Json document = Json::parse(engine.alerts_json());
    for (const Json& alert : document["alerts"]) {
      if (alert["state"] == state) rules.push_back(alert["rule"]);
    }
    return rules;
  }

  std::string rules_file(const std::string& text) {
    const std::string path = folder_.file("rules.toml");
    std::ofstream(path) << text;
    return path;
  }

  history::testing::Folder folder_;
  std::shared_ptr<history::History> history_;  // null: a restart forgets
  std::vector<std::string> webhooks_;
  std::shared_ptr<Written> written_ = std::make_shared<Written>();
};

TEST_F(AlertEngineTest, TellsOfAFaultOnceAndWhenItIsOver) {
  const auto engine = open();
  engine->judge(sample(0));
  engine->judge(sample(10, {{79, 1, 0}}));
  engine->judge(sample(20, {{79, 1, 0}}));
  EXPECT_THAT(rules_in(*engine, "firing"), ElementsAre("xid-critical"));
  engine->judge(sample(20 * 60, {{79, 1, 0}}));  // its ten minutes are over
  EXPECT_THAT(rules_in(*engine, "firing"), IsEmpty());
  EXPECT_THAT(rules_in(*engine, "resolved"), ElementsAre("xid-critical"));
  EXPECT_THAT(written_->once_there_are(2),
              ElementsAre(HasSubstr("node17 firing critical xid-critical"),
                          HasSubstr("node17 resolved (clear) critical xid-critical")));
}

TEST_F(AlertEngineTest, ALookThatDoesNotEndIsTold) {
  const auto engine = open();
  engine->judge(sample(0));
  engine->judge_overdue(60 * kSecondNs, kBeginning + int64_t{60'000'000'000}, 59 * kSecondNs);
  EXPECT_THAT(rules_in(*engine, "firing"), IsEmpty());
  engine->judge_overdue(62 * kSecondNs, kBeginning + int64_t{62'000'000'000}, 61 * kSecondNs);
  EXPECT_THAT(rules_in(*engine, "firing"), ElementsAre("sample-overdue"));
  const Json document = Json::parse(engine->alerts_json());
  EXPECT_EQ(document["time_unix_ns"], kBeginning + int64_t{62'000'000'000});
  EXPECT_THAT(written_->once_there_are(1),
              ElementsAre(HasSubstr("firing critical sample-overdue")));
}

TEST_F(AlertEngineTest, RulesAreReadAgainButNotBrokenOnes) {
  const auto engine = open(rules_file("[rules.xid-critical]\nenabled = false\n"));
  engine->judge(sample(0));
  engine->judge(sample(10, {{79, 1, 0}}));
  EXPECT_THAT(rules_in(*engine, "firing"), IsEmpty());
  const std::string before = engine->rules_json();
  (void)rules_file("[rules.xid-critical]\nenabled = maybe\n");
  EXPECT_FALSE(engine->reload());
  EXPECT_EQ(engine->rules_json(), before);
  (void)rules_file("[rules.temperature]\nabove = 80\n");
  ASSERT_TRUE(engine->reload());
  EXPECT_NE(engine->rules_json(), before);
  engine->judge(sample(20, {{79, 2, 0}}));
  EXPECT_THAT(rules_in(*engine, "firing"), ElementsAre("xid-critical"));
}

TEST_F(AlertEngineTest, WhatCantBeReadOpensNothing) {
  AlertEngineOptions options;
  options.rules_file = folder_.file("none.toml");
  EXPECT_FALSE(AlertEngine::open(options));
  options = {};
  options.receivers.webhooks = {"ftp://127.0.0.1/"};
  EXPECT_FALSE(AlertEngine::open(options));
}

class AlertEngineWithHistory : public AlertEngineTest {
 protected:
  AlertEngineWithHistory() { open_history(); }
  void open_history() {
    history_.reset();
    history_ = std::make_shared<history::History>(history::testing::opened(folder_.file()));
  }
};

TEST_F(AlertEngineWithHistory, AnotherDeskGoesOnWhereTheFirstEnded) {
  {
    const auto engine = open();
    engine->judge(sample(0));
    engine->judge(sample(10, {{79, 1, 0}}));
  }
  open_history();
  const auto engine = open("", 20);
  EXPECT_THAT(rules_in(*engine, "firing"), ElementsAre("xid-critical"))
      << "before the first sample";
  engine->judge(sample(20));
  EXPECT_THAT(rules_in(*engine, "firing"), ElementsAre("xid-critical"));
  engine->judge(sample(20 * 60));
  EXPECT_THAT(rules_in(*engine, "resolved"), ElementsAre("xid-critical"));
  EXPECT_THAT(written_->once_there_are(2), SizeIs(2)) << "one beginning, one end";
}

// A kill -9 right after a delivery finds in the file what was delivered.
TEST_F(AlertEngineWithHistory, WhatIsToldIsInTheFileBefore) {
  webhooks_ = {"http://127.0.0.1:1/"};
  const auto engine = open();
  engine->judge(sample(0));
  engine->judge(sample(10, {{79, 1, 0}}));
  (void)written_->once_there_are(1);
  const std::string copy = folder_.file("copy.db");
  for (const char* end : {"", "-wal"}) std::filesystem::copy_file(folder_.file() + end, copy + end);
  const history::History history = history::testing::opened(copy);
  EXPECT_THAT(history.kept("alerts"), HasSubstr("xid-critical"));
  const Json outbox = Json::parse(history.kept("alert outbox"));
  ASSERT_EQ(outbox["news"].size(), 1U);
  ASSERT_EQ(outbox["owed"].size(), 2U) << "the log and the webhook";
  for (const Json& number : outbox["owed"]) EXPECT_EQ(number, outbox["news"][0]["number"]);
}

TEST_F(AlertEngineWithHistory, WhatWasKeptAndIsNoneIsAsIfNothingWas) {
  for (const char* text : {"{", "[]", "{\"form\": 2}", "{\"form\": 1, \"cases\": 7}", "null"}) {
    history_->keep({{"alerts", text}, {"alert figures", text}, {"alert outbox", text}},
                   std::chrono::seconds(60));
    open_history();
    const auto engine = open();
    EXPECT_THAT(rules_in(*engine, "firing"), IsEmpty()) << text;
    engine->judge(sample(0));
  }
}

TEST_F(AlertEngineTest, AlertmanagersKnowTheHostBeforeTheFirstLook) {
  const auto engine = open();
  engine->judge_overdue(70 * kSecondNs, kBeginning, 70 * kSecondNs);
  EXPECT_EQ(Json::parse(engine->alerts_json())["host"], "node17");
}

}  // namespace
}  // namespace vram::alerts
