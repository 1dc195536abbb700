// The way of an alert: pending, firing, resolved; unknown values, gaps, what is gone, other rules.
#include "watch/rules/judge.hpp"

#include "watch/rules/testing/looks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::watch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Looks;

// Fires at 80 C held for a minute, is over below 70 C for 30 s, waits 2 min for a value.
RuleBook one_rule(const std::string& more = "") {
  std::string text =
      "[rules.hot]\nmeasure = \"temperature\"\nabove = 80\nclear = 70\nfor = \"1min\"\n"
      "clear_for = \"30s\"\nunknown_for = \"2min\"\n" +
      more;
  const RuleBook built_in = RuleBook::built_in();
  for (const Rule& rule : built_in.rules())
    text += "[rules." + rule.name + "]\nenabled = false\n";
  return RuleBook::parse(text, "rules.toml").value();
}

TEST(Judge, AWellMachineHasNoAlerts) {
  Looks looks;
  looks.add_process(4711, 20 * kGiB);
  looks.look_for(2 * kHourNs);
  EXPECT_THAT(looks.judge.alerts(), IsEmpty());
  EXPECT_THAT(looks.told, IsEmpty());
}

TEST(Judge, FiresOnlyAfterHavingHeldForLongEnough) {
  Looks looks(one_rule());
  looks.device().sample.celsius = 80;
  EXPECT_THAT(looks.look(), IsEmpty());
  EXPECT_THAT(looks.pending(), ElementsAre("hot"));
  EXPECT_THAT(looks.look(59 * kSecondNs), IsEmpty());
  const auto changes = looks.look(kSecondNs);
  ASSERT_EQ(changes.size(), 1U);
  const Alert& alert = changes[0].alert;
  EXPECT_EQ(alert.state, AlertState::kFiring);
  EXPECT_EQ(alert.device, 0U);
  EXPECT_EQ(alert.value, 80);
  EXPECT_EQ(alert.threshold, 80);
  EXPECT_EQ(*alert.started_unix_ns - alert.since_unix_ns, 60 * static_cast<int64_t>(kSecondNs));
  EXPECT_THAT(looks.look(), IsEmpty()) << "told once";
}

TEST(Judge, OneGoodLookBeginsThePendingTimeAnew) {
  Looks looks(one_rule());
  looks.look_for(10 * kMinuteNs, [&](uint64_t passed) {
    looks.device().sample.celsius = passed % kMinuteNs == 0 ? 79 : 99;
  });
  EXPECT_THAT(looks.told, IsEmpty());
}

}  // namespace
}  // namespace vram::watch
