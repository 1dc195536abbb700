// Files of rules: what they change, and every way in which they can be wrong.
#include "alerts/rules/rule_book.hpp"

#include "base/bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <stdexcept>
#include <unistd.h>

namespace vram::alerts {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Rule rule_of(const std::string& text, const std::string& name) {
  const RuleBook book = RuleBook::parse(text, "rules.toml").value();
  const auto found = std::ranges::find(book.rules(), name, &Rule::name);
  if (found == book.rules().end()) throw std::out_of_range("no rule named " + name);
  return *found;
}

std::string error_of(const std::string& text) {
  const auto book = RuleBook::parse(text, "rules.toml");
  return book ? "no error" : book.error().message;
}

TEST(RuleBook, NamesAreUniqueAndSettingsFit) {
  std::set<std::string> names;
  for (const Rule& rule : built_in_rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_FALSE(rule.summary.empty() || rule.advice.empty()) << rule.name;
  }
  EXPECT_GE(names.size(), 15U);
}

TEST(RuleBook, AnEmptyFileChangesNothing) {
  EXPECT_EQ(RuleBook::parse("", "r").value().rules(), built_in_rules());
  EXPECT_EQ(RuleBook::parse("# nothing\n[rules]\n", "r").value().rules(), built_in_rules());
}

TEST(RuleBook, ChangesABuiltInRule) {
  const Rule rule = rule_of(
      "[rules.memory-leak]\nbelow = \"3h\"\nwindow = \"30min\"\nat_least = \"2GiB\"\n"
      "for = \"90s\"\nseverity = \"critical\"\nlabels = { team = \"ml\" }\n",
      "memory-leak");
  EXPECT_EQ(rule.threshold, 3 * 3'600);
  EXPECT_EQ(rule.clear, 4.5 * 3'600) << "the distance goes along";
  EXPECT_EQ(rule.window_ns, 30 * kMinuteNs);
  EXPECT_EQ(rule.at_least_bytes, 2 * kGiB);
  EXPECT_EQ(rule.for_ns, 90 * kSecondNs);
  EXPECT_EQ(rule.severity, Severity::kCritical);
  EXPECT_EQ(rule.labels.at("team"), "ml");
}

TEST(RuleBook, DisablesAndAdds) {
  EXPECT_FALSE(rule_of("rules.temperature.enabled = false", "temperature").is_enabled);
  const Rule own = rule_of("[rules.hot]\nmeasure = \"temperature\"\nabove = 70", "hot");
  EXPECT_EQ(own.threshold, 70);
  EXPECT_NEAR(own.clear, 66.1, 0.1) << "as far below as the built-in one's";
  EXPECT_EQ(own.for_ns, 5 * kMinuteNs) << "what it does not say is as in the built-in one";
  const Rule xid = rule_of("[rules.bus]\nmeasure = \"xid\"\nxids = [79]", "bus");
  EXPECT_EQ(xid.xids, std::vector<uint64_t>{79});
}

TEST(RuleBook, TakesValuesAsPeopleWriteThem) {
  const auto threshold = [](const std::string& value) {
    return rule_of("[rules.memory-almost-full]\nabove = " + value, "memory-almost-full").threshold;
  };
  EXPECT_EQ(threshold("\"90%\""), 0.9);
  EXPECT_EQ(threshold("\"90 %\""), 0.9);
  EXPECT_EQ(threshold("0.9"), 0.9);
  EXPECT_EQ(
      rule_of("[rules.memory-unattributed]\nabove = 1073741824", "memory-unattributed").threshold,
      static_cast<double>(kGiB));
}

TEST(RuleBook, WhatItWritesIsReadAsTheSame) {
  const std::string text =
      "[rules.own]\nmeasure = \"memory_used\"\nabove = 0.123456789\nclear = 0.07\n"
      "for = \"1500ms\"\nsummary = \"a \\\"quoted\\\" \\\\ one: {device}\"\n"
      "labels = { team = \"ml\", b_2 = \"显存\" }\n[rules.xid-warning]\nxids = [1]";
  const auto book = RuleBook::parse(text, "r");
  ASSERT_TRUE(book) << book.error().message;
  const auto again = RuleBook::parse(book->to_toml(), "r");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->rules(), book->rules());
}

TEST(RuleBook, ErrorsSayWhereAndWhatIsMeant) {
  EXPECT_EQ(
      error_of("[rules.memory-leek]\nbelow = \"3h\""),
      "rules.toml:1:8: no rule 'memory-leek' is built in, did you mean 'memory-leak'?; a rule "
      "of your own needs 'measure', one of memory_used, time_to_full, process_time_to_full, "
      "unattributed, idle_memory, unused_reserve, dead_process_memory, alloc_retries, ooms, xid, "
      "other_xid, "
      "held_clocks, temperature, memory_temperature, ecc_uncorrected, row_remap_failed, "
      "row_remap_pending, page_retirement_failed, page_retirement_pending, recovery_action, "
      "error, missing, source_failing, sample_time, sample_overdue");
  EXPECT_THAT(
      error_of("[rules.temperature]\nabove = 80\ncleer = 70"),
      StartsWith("rules.toml:3:1: expected a setting of a rule, found 'cleer', did you mean "
                 "'clear'?"));
  EXPECT_EQ(error_of("[rules.temperature]\nabove = \"hot\""),
            "rules.toml:2:9: rules.temperature.above: expected degrees Celsius such as 85, found "
            "'hot'");
  EXPECT_THAT(error_of("[rules.x]\nmeasure = \"temprature\""),
              HasSubstr("rules.toml:2:11: rules.x.measure: expected one of memory_used"));
  EXPECT_THAT(error_of("[rules.x]\nmeasure = \"temprature\""),
              HasSubstr("found 'temprature', did you mean 'temperature'?"));
  EXPECT_THAT(error_of("[rule.temperature]\nabove = 80"),
              StartsWith("rules.toml:1:2: expected [rules.NAME], found 'rule'"));
  EXPECT_THAT(error_of("[rules.temperature]\nsummary = \"{devise} is hot\""),
              HasSubstr("found '{devise}', did you mean '{device}'?"));
}

TEST(RuleBook, RefusesWhatCanNotBe) {
  EXPECT_THAT(error_of("[rules.temperature]\nabove = 80\nabove = 70"), HasSubstr("rules.toml:3:"));
  EXPECT_THAT(error_of("[rules.temperature"), HasSubstr("expected TOML"));
  EXPECT_THAT(error_of("rules = 3"), HasSubstr("found 3 as 'rules'"));
  EXPECT_THAT(error_of("rules.temperature = 3"), HasSubstr("expected settings below"));
  EXPECT_THAT(error_of("[rules.memory-almost-full]\nabove = 95"),
              HasSubstr("\"95%\" or 0.95, found 95"));
  EXPECT_THAT(error_of("[rules.temperature]\nbelow = 80"), HasSubstr("expected 'above'"));
  EXPECT_THAT(error_of("[rules.gpu-error]\nabove = 1"), HasSubstr("yes or no"));
  EXPECT_THAT(error_of("[rules.temperature]\nclear = 95"),
              HasSubstr("expected 'clear' to be not more"));
  EXPECT_THAT(error_of("[rules.memory-leak]\nclear = \"1h\""), HasSubstr("not less"));
  EXPECT_THAT(error_of("[rules.temperature]\nwindow = \"1h\""), HasSubstr("have no such setting"));
  EXPECT_THAT(error_of("[rules.memory-leak]\nwindow = \"2h30\""), HasSubstr("a time such as"));
  EXPECT_THAT(error_of("[rules.memory-leak]\nwindow = \"25h\""), HasSubstr("\"1min\" to \"24h\""));
  EXPECT_THAT(error_of("[rules.temperature]\nfor = -1"), HasSubstr("found -1"));
  EXPECT_THAT(error_of("[rules.temperature]\nfor = nan"), HasSubstr("found nan"));
  EXPECT_THAT(error_of("[rules.temperature]\nenabled = 1"),
              HasSubstr("expected true or false, found 1"));
  EXPECT_THAT(error_of("[rules.temperature]\nabove = 1979-05-27"),
              HasSubstr("found a date or time"));
  EXPECT_THAT(error_of("[rules.temperature]\nseverity = \"bad\""),
              HasSubstr("\"info\", \"warning\""));
  EXPECT_THAT(error_of("[rules.xid-warning]\nxids = []"), HasSubstr("found a list"));
  EXPECT_THAT(error_of("[rules.xid-warning]\nxids = [48, \"x\"]"), StartsWith("rules.toml:2:13: "));
  EXPECT_THAT(error_of("[rules.own]\nmeasure = \"xid\""), HasSubstr("needs 'xids'"));
  EXPECT_THAT(error_of("[rules.temperature]\nmeasure = \"error\""), HasSubstr("a name of its own"));
  EXPECT_THAT(error_of("[rules.\"a b\"]\nmeasure = \"error\""),
              HasSubstr("expected a rule's name"));
  EXPECT_THAT(error_of("[rules.temperature]\nlabels = { \"a-b\" = \"x\" }"),
              HasSubstr("found 'a-b'"));
  EXPECT_THAT(error_of("[rules.temperature]\nlabels = { severity = \"x\" }"),
              HasSubstr("not alertname"));
}

TEST(RuleBook, ErrorsAreHarmlessToATerminal) {
  for (const char* const text : {"[rules.\"\x1b[2J\"]\n", "[rules.temperature]\n\"\\u001b[2J\" = 3",
                                 "[rules.temperature]\nabove = \"\\u001b[2J\"", "\x1b[2J = 3"}) {
    const std::string error = error_of(text);
    EXPECT_NE(error, "no error");
    EXPECT_EQ(error.find('\x1b'), std::string::npos) << error;
  }
}

TEST(RuleBook, LoadsAFile) {
  const std::string path =
      ::testing::TempDir() + "vram-rule-book-test." + std::to_string(getpid()) + ".toml";
  std::ofstream(path) << "[rules.temperature]\nabove = 70\n";
  const auto book = RuleBook::load(path);
  ASSERT_TRUE(book) << book.error().message;
  std::ofstream(path) << "[rules.temperature]\nabove = 'x'\n";
  EXPECT_THAT(RuleBook::load(path).error().message, StartsWith(path + ":2:9: "));
  std::ofstream(path) << std::string((1 << 20) + 1, '#');
  EXPECT_EQ(RuleBook::load(path).error().code, Code::kTooLarge);
  std::remove(path.c_str());
  EXPECT_EQ(RuleBook::load(path).error().code, Code::kNotFound);
}

TEST(RuleBook, OpeningBracketsTooManyAreAnError) {
  for (const char* text : {"[[[a]]]", "[[[1]]]", "[[[]]", "[[=", "[[["})
    EXPECT_THAT(error_of(text), StartsWith("rules.toml:1:")) << text;
}

// Whatever the bytes, there is a book or an error with a place.
TEST(RuleBook, AnyBytesAreABookOrAnError) {
  std::mt19937 random(7);
  const std::string good = RuleBook::built_in().to_toml();
  for (int round = 0; round < 300; ++round) {
    std::string text = good.substr(random() % good.size(), random() % 2'000);
    for (int i = 0; i < 3 && !text.empty(); ++i)
      text[random() % text.size()] = static_cast<char>(random());
    const std::string error = error_of("[rules.temperature]\n" + text);
    EXPECT_TRUE(error == "no error" || error.starts_with("rules.toml:")) << error;
  }
  EXPECT_THAT(error_of("a = " + std::string(100'000, '[')), StartsWith("rules.toml:"));
}

}  // namespace
}  // namespace vram::alerts
