#include "show/top/settings.hpp"

#include "base/time.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace vram::show::top {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Settings all_other_than_default() {
  return {Field::kBusy,
          true,
          true,
          true,
          PlotKind::kPower,
          2 * kSecondNs,
          std::set<Field>{Field::kUser, Field::kType}};
}

TEST(Settings, AFileSaysWhatAPersonWouldWrite) {
  EXPECT_THAT(to_toml(all_other_than_default()),
              HasSubstr("sort = \"busy\"\ninverted = true\ntree = true\nallocators = true\n"
                        "plots = \"power\"\nperiod = \"2000ms\"\nhidden = [\"user\", \"type\"]\n"));
  EXPECT_THAT(to_toml({}), Not(HasSubstr("=")));
}

TEST(Settings, AFileByHandIsUnderstood) {
  const auto read = settings_of_toml("period = '0.5s'\n# a remark\nhidden = []\n", "top.toml");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  Settings expected;
  expected.period_ns = kSecondNs / 2;
  expected.hidden = std::set<Field>();
  EXPECT_EQ(*read, expected);
}

// Whatever there can be comes back from its file, and what is not set stays so.
TEST(Settings, WhatIsWrittenIsReadAgain) {
  std::mt19937_64 random(7);
  const auto any = [&](uint64_t most) { return random() % (most + 1); };
  for (int i = 0; i < 300; ++i) {
    Settings some;
    if (any(1) == 1) some.sort = all_fields()[any(all_fields().size() - 1)].field;
    if (any(1) == 1) some.is_inverted = any(1) == 1;
    if (any(1) == 1) some.is_tree = any(1) == 1;
    if (any(1) == 1) some.shows_allocators = any(1) == 1;
    if (any(1) == 1) some.plot = static_cast<PlotKind>(any(2));
    if (any(1) == 1) some.period_ns = kPeriodsMs.at(any(kPeriodsMs.size() - 1)) * 1'000'000;
    if (any(1) == 1) some.hidden.emplace();
    for (const FieldInfo& info : all_fields()) {
      if (some.hidden && any(3) == 0) some.hidden->insert(info.field);
    }
    const auto read = settings_of_toml(to_toml(some), "top.toml");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(*read, some) << to_toml(some);
  }
}

TEST(Settings, AFileWithAnythingWrongInItSaysNothing) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"sort = 'bussy'", "top.toml:1:8: sort: expected the name of a column"},
      {"sort = 3", "found 3"},
      {"\ntree = 1", "top.toml:2:8: tree: expected true or false, found 1"},
      {"plots = 'x'", "\"memory\", \"power\" or \"none\", found 'x'"},
      {"period = '0.01s'", "a time from \"0.1s\" to \"1h\""},
      {"period = '2h'", "found '2h'"},
      {"period = 5", "found 5"},
      {"hidden = 'pid'", "a list of names of columns"},
      {"hidden = ['pid', 7]", "found a list"},
      {"sorts = 'pid'",
       "expected a setting (sort, inverted, tree, allocators, plots, period, "
       "hidden), found 'sorts', did you mean 'sort'?"},
      {"tree = true\ntree = true", "expected TOML"},
      {"[[[", "expected TOML"},
      {"'\\u001b[2J' = 1", "found"},
  };
  for (const auto& [text, expected] : cases) {
    const auto read = settings_of_toml(text, "top.toml");
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_THAT(read.error().message, HasSubstr(expected)) << text;
    EXPECT_THAT(read.error().message, Not(HasSubstr("\x1b")));
  }
}

TEST(Settings, TheStateBecomesWhatTheySay) {
  TopState state;
  const Settings usual = settings_of(state);
  apply({}, state);
  EXPECT_EQ(settings_of(state), usual);
  apply(all_other_than_default(), state);
  EXPECT_EQ(settings_of(state), all_other_than_default());
}

TEST(Settings, OptionsStandOverTheFile) {
  Settings file;
  file.is_tree = true;
  file.period_ns = 5 * kSecondNs;
  Settings options;
  options.period_ns = kSecondNs;
  const Settings both = put_over(file, options);
  EXPECT_EQ(both.is_tree, true);
  EXPECT_EQ(both.period_ns, kSecondNs);
  EXPECT_EQ(both.sort, std::nullopt);
}

TEST(Settings, OnlyWhatChangedIsKept) {
  TopState state;
  const Settings before = settings_of(state);
  EXPECT_EQ(changes(before, settings_of(state)), Settings());
  state.filter_text = "gpu:0";
  state.device = 1;
  EXPECT_EQ(changes(before, settings_of(state)), Settings());
  state.order.is_inverted = true;
  state.hidden.insert(Field::kUser);
  Settings expected;
  expected.sort = Field::kMemory;  // inverted by what
  expected.is_inverted = true;
  expected.hidden = std::set<Field>{Field::kUser};
  EXPECT_EQ(changes(before, settings_of(state)), expected);
}

}  // namespace
}  // namespace vram::show::top
