// The way of an alert: pending, firing, resolved; unknown values, gaps, what is gone, other rules.
#include "watch/rules/judge.hpp"

#include "watch/rules/testing/looks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::watch {
namespace {

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
  for (const Rule& rule : built_in.rules()) text += "[rules." + rule.name + "]\nenabled = false\n";
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

// Ends as `ending` and is told of once.
void expect_ended(const Looks& looks, Ending ending) {
  ASSERT_FALSE(looks.told.empty());
  const Alert& last = looks.told.back();
  EXPECT_EQ(last.state, AlertState::kResolved);
  EXPECT_EQ(last.ending, ending);
  EXPECT_EQ(looks.told.size(), 2U) << "one beginning, one end";
  EXPECT_THAT(looks.firing(), IsEmpty());
}

Looks firing_looks(const std::string& more = "") {
  Looks looks(one_rule(more));
  looks.device().sample.celsius = 85;
  looks.look_for(2 * kMinuteNs);
  EXPECT_THAT(looks.firing(), ElementsAre("hot"));
  return looks;
}

TEST(Judge, IsClearOnlyBeyondTheClearThresholdAndForLongEnough) {
  Looks looks = firing_looks();
  looks.look_for(kHourNs, [&](uint64_t passed) {  // trembles around both thresholds
    looks.device().sample.celsius = passed % (20 * kSecondNs) == 0 ? 69 : 81;
  });
  looks.look_for(kHourNs, [&](uint64_t) { looks.device().sample.celsius = 70; });
  EXPECT_THAT(looks.firing(), ElementsAre("hot"));
  EXPECT_EQ(looks.told.size(), 1U) << "flapping tells nobody";
  looks.device().sample.celsius = 69;
  looks.look();
  looks.look(29 * kSecondNs);
  EXPECT_THAT(looks.firing(), ElementsAre("hot"));
  looks.look(kSecondNs);
  expect_ended(looks, Ending::kClear);
}

TEST(Judge, ResolvedAlertsAreShownForAWhile) {
  Looks looks = firing_looks();
  looks.device().sample.celsius = 20;
  looks.look_for(kMinuteNs);
  EXPECT_THAT(looks.rules_in(AlertState::kResolved), ElementsAre("hot"));
  looks.look_for(15 * kMinuteNs);
  EXPECT_THAT(looks.judge.alerts(), IsEmpty());
}

TEST(Judge, FiringAgainReplacesTheResolvedOne) {
  Looks looks = firing_looks();
  looks.device().sample.celsius = 20;
  looks.look_for(kMinuteNs);
  looks.device().sample.celsius = 90;
  looks.look_for(2 * kMinuteNs);
  ASSERT_EQ(looks.judge.alerts().size(), 1U);
  EXPECT_EQ(looks.told[2].id, looks.told[0].id);
  EXPECT_GT(looks.told[2].started_unix_ns, looks.told[1].ended_unix_ns);
}

TEST(Judge, UnknownNeitherFiresNorResolvesUntilItLastsTooLong) {
  Looks looks(one_rule());
  looks.device().sample.celsius = 85;
  looks.look();
  looks.device().sample.celsius.reset();
  looks.look_for(110 * kSecondNs);
  EXPECT_THAT(looks.told, IsEmpty());
  EXPECT_THAT(looks.pending(), ElementsAre("hot"));
  EXPECT_TRUE(looks.judge.alerts()[0].is_unknown);
  looks.device().sample.celsius = 85;
  looks.look();
  ASSERT_THAT(looks.firing(), ElementsAre("hot")) << "the gap was short enough to count";
  looks.device().sample.celsius.reset();
  looks.look_for(2 * kMinuteNs);
  EXPECT_THAT(looks.firing(), ElementsAre("hot"));
  looks.look();
  expect_ended(looks, Ending::kUnknown);
}

TEST(Judge, AGapWithoutLooksIsNoTimeThatItHeld) {
  Looks looks(one_rule());
  looks.device().sample.celsius = 85;
  looks.look();
  looks.look(kHourNs);
  EXPECT_THAT(looks.told, IsEmpty());
  looks.look(kMinuteNs);
  EXPECT_THAT(looks.firing(), ElementsAre("hot"));
}

TEST(Judge, UnknownForTooLongDropsWhatIsPending) {
  Looks looks(one_rule());
  looks.device().sample.celsius = 85;
  looks.look();
  looks.device().sample.celsius.reset();
  looks.look_for(130 * kSecondNs);
  EXPECT_THAT(looks.judge.alerts(), IsEmpty());
}

TEST(Judge, ADeviceThatIsGoneTakesItsAlertsAlong) {
  Looks looks = firing_looks();
  looks.machine.devices.clear();
  looks.look();
  expect_ended(looks, Ending::kGone);
}

TEST(Judge, ADeviceThatMovesKeepsItsAlert) {
  Looks looks = firing_looks();
  looks.machine.devices.insert(looks.machine.devices.begin(), testing::healthy_device(7));
  looks.device(1).identity.index = 1;
  looks.look();
  EXPECT_EQ(looks.told.size(), 1U);
  EXPECT_EQ(looks.judge.alerts()[0].device, 1U);
  EXPECT_EQ(looks.judge.alerts()[0].labels.at("gpu"), "0") << "its name to receivers stays";
}

TEST(Judge, AProcessThatIsGoneTakesItsAlertsAlong) {
  Looks looks;
  looks.add_process(4711, 20 * kGiB).uses[0].process.busy_percent = 0;
  looks.look_for(kHourNs + kMinuteNs);
  ASSERT_THAT(looks.firing(), ElementsAre("memory-held-idle"));
  Snapshot with = looks.machine;
  looks.machine.processes.clear();
  looks.device().sample.processes.reset();
  looks.look();
  EXPECT_THAT(looks.firing(), ElementsAre("memory-held-idle")) << "no list, nobody is gone";
  looks.device().sample.processes.emplace();
  looks.look();
  expect_ended(looks, Ending::kGone);
  looks.machine = with;  // the same number, another process
  looks.machine.processes[0].facts.edit().start_ticks = 999'999;
  looks.look();
  EXPECT_THAT(looks.firing(), IsEmpty());
  EXPECT_THAT(looks.pending(), ElementsAre("memory-held-idle"));
}

TEST(Judge, AClockThatIsSetChangesNothing) {
  Looks looks(one_rule());
  looks.device().sample.celsius = 85;
  looks.look();
  looks.clock_is_off_ns = -static_cast<int64_t>(48 * kHourNs);
  looks.look(30 * kSecondNs);
  EXPECT_THAT(looks.told, IsEmpty());
  looks.clock_is_off_ns = static_cast<int64_t>(48 * kHourNs);
  looks.look(30 * kSecondNs);
  EXPECT_THAT(looks.firing(), ElementsAre("hot"));
  looks.device().sample.celsius = 20;
  looks.clock_is_off_ns = 0;
  looks.look_for(kMinuteNs);
  expect_ended(looks, Ending::kClear);
  EXPECT_GE(looks.told.back().ended_unix_ns, looks.told.back().started_unix_ns);
}

TEST(Judge, OtherRulesKeepWhatGoesOn) {
  Looks looks = firing_looks();
  looks.judge.set_rules(one_rule("advice = \"open a window\"\n"));
  looks.look();
  EXPECT_EQ(looks.told.size(), 1U);
  EXPECT_EQ(looks.judge.alerts()[0].advice, "open a window");
}

TEST(Judge, ARuleThatIsTakenAwayResolvesItsAlerts) {
  Looks looks = firing_looks();
  looks.judge.set_rules(one_rule("enabled = false\n"));
  looks.look();
  expect_ended(looks, Ending::kNoRule);
}

TEST(Judge, ALookThatHangsLeavesOtherAlertsAsTheyAre) {
  Looks looks;
  looks.device().health.recovery_action = "reset";
  looks.look();
  looks.overdue(kHourNs);
  EXPECT_THAT(looks.firing(), ElementsAre("recovery-action", "look-overdue"));
  looks.look(2 * kHourNs);
  looks.look(2 * kMinuteNs);
  EXPECT_THAT(looks.firing(), ElementsAre("recovery-action"));
}

TEST(Judge, AFaultIsToldOnceForEachNumberAndEndsWithItsWindow) {
  Looks looks;
  looks.look();
  *looks.device().xids = {{79, 1, 0}, {48, 2, 0}};
  looks.look();
  looks.look_for(5 * kMinuteNs);
  ASSERT_EQ(looks.told.size(), 2U);
  EXPECT_EQ(looks.told[0].labels.at("xid"), "48");
  EXPECT_EQ(looks.told[0].value, 2);
  EXPECT_EQ(looks.told[1].summary, "GPU 0 (NVIDIA H200): Xid 79, the GPU fell off the bus");
  looks.look_for(6 * kMinuteNs);
  EXPECT_THAT(looks.firing(), IsEmpty());
  (*looks.device().xids)[0].count = 2;
  looks.look();
  EXPECT_THAT(looks.firing(), ElementsAre("xid-critical"));
}

TEST(Judge, WhenTooLittleIsAtStakeItIsClearWhateverTheShare) {
  Looks looks;
  looks.add_process(4711, 20 * kGiB).uses[0].allocator = {10 * kGiB, 20 * kGiB, {}, {}};
  looks.look_for(16 * kMinuteNs);
  ASSERT_THAT(looks.firing(), ElementsAre("reserve-unused"));
  looks.machine.processes[0].uses[0].allocator = {3 * kGiB, 6 * kGiB, {}, {}};  // half, but 3 GiB
  looks.look_for(2 * kMinuteNs);
  expect_ended(looks, Ending::kClear);
}

TEST(Judge, WordsAndLabelsAreHarmless) {
  Looks looks;
  Process& process = looks.add_process(66, 20 * kGiB);
  process.uses[0].process.busy_percent = 0;
  ProcessFacts& facts = process.facts.edit();
  facts.command = "{device}\x1b[2J" + std::string(5'000, 'A') + "\n\xff";
  facts.pod = Pod{"7c1f", "trainer\x1b[0m-0", "ml"};
  looks.look_for(kHourNs + kMinuteNs);
  ASSERT_EQ(looks.told.size(), 1U);
  const Alert& alert = looks.told[0];
  EXPECT_EQ(alert.labels.at("pod"), "trainer\\x1b[0m-0");
  EXPECT_EQ(alert.labels.at("namespace"), "ml");
  EXPECT_EQ(alert.labels.at("pid"), "66");
  EXPECT_EQ(alert.labels.at("uuid"), "GPU-0000");
  EXPECT_EQ(alert.labels.count("command"), 0U);
  EXPECT_TRUE(alert.summary.starts_with("process 66 (ann: {device}\\x1b[2JAAA"));
  EXPECT_LT(alert.summary.size(), 300U);
  EXPECT_LT(alert.annotations.at("command").size(), 500U);
  EXPECT_EQ(alert.summary.find('\x1b'), std::string::npos);
}

TEST(Judge, TheSameLooksMakeTheSameAlerts) {
  const auto play = [] {
    Looks looks;
    looks.add_process(4711, 20 * kGiB);
    looks.look_for(2 * kHourNs, [&](uint64_t passed) {
      const uint64_t minute = passed / kMinuteNs;
      looks.device().sample.memory.free_bytes = (79 - std::min<uint64_t>(minute, 79)) * kGiB;
      looks.device().sample.memory.used_bytes = (20 + std::min<uint64_t>(minute, 79)) * kGiB;
      looks.device().sample.celsius = static_cast<uint32_t>(60 + minute % 50);
    });
    std::string text;
    for (const Alert& alert : looks.told)
      text += alert.id + " " + alert.summary + std::to_string(*alert.started_unix_ns) + "\n";
    return text;
  };
  const std::string once = play();
  EXPECT_NE(once, "");
  EXPECT_EQ(play(), once);
}

TEST(Judge, InstancesOfMigFillUpOneByOne) {
  Looks looks;
  gpu::MigInstance full{1, 0, {}, {}, {20 * kGiB, 20 * kGiB, 0, 0}};
  gpu::MigInstance shares_it = full;
  shares_it.compute_instance = 1;
  looks.device().health.mig_instances = {
      full, shares_it, {2, 0, {}, {}, {20 * kGiB, kGiB, 19 * kGiB, 0}}};
  looks.look_for(3 * kMinuteNs);
  EXPECT_THAT(looks.firing(), ElementsAre("memory-full", "memory-almost-full"));
  EXPECT_EQ(looks.told[0].labels.at("mig"), "1");
  EXPECT_THAT(looks.told[0].summary, ::testing::StartsWith("MIG 1 of GPU 0"));
}

}  // namespace
}  // namespace vram::watch
