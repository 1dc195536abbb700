// The way of an alert: pending, firing, resolved; unknown values, gaps, what is gone, other rules.
#include "alerts/judge/judge.hpp"

#include "alerts/testing/samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::alerts {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SampleSequence;

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
  SampleSequence samples;
  samples.add_process(4711, 20 * kGiB);
  samples.sample_for(2 * kHourNs);
  EXPECT_THAT(samples.judge.alerts(), IsEmpty());
  EXPECT_THAT(samples.notified, IsEmpty());
}

TEST(Judge, FiresOnlyAfterHavingHeldForLongEnough) {
  SampleSequence samples(one_rule());
  samples.device().sample.celsius = 80;
  EXPECT_THAT(samples.take_sample(), IsEmpty());
  EXPECT_THAT(samples.pending(), ElementsAre("hot"));
  EXPECT_THAT(samples.take_sample(59 * kSecondNs), IsEmpty());
  const auto changes = samples.take_sample(kSecondNs);
  ASSERT_EQ(changes.size(), 1U);
  const Alert& alert = changes[0].alert;
  EXPECT_EQ(alert.state, AlertState::kFiring);
  EXPECT_EQ(alert.device, 0U);
  EXPECT_EQ(alert.value, 80);
  EXPECT_EQ(alert.threshold, 80);
  EXPECT_EQ(*alert.started_unix_ns - alert.since_unix_ns, 60 * static_cast<int64_t>(kSecondNs));
  EXPECT_THAT(samples.take_sample(), IsEmpty()) << "told once";
}

TEST(Judge, OneGoodLookBeginsThePendingTimeAnew) {
  SampleSequence samples(one_rule());
  samples.sample_for(10 * kMinuteNs, [&](uint64_t passed) {
    samples.device().sample.celsius = passed % kMinuteNs == 0 ? 79 : 99;
  });
  EXPECT_THAT(samples.notified, IsEmpty());
}

// Ends as `ending` and is reported once.
void expect_ended(const SampleSequence& samples, Ending ending) {
  ASSERT_FALSE(samples.notified.empty());
  const Alert& last = samples.notified.back();
  EXPECT_EQ(last.state, AlertState::kResolved);
  EXPECT_EQ(last.ending, ending);
  EXPECT_EQ(samples.notified.size(), 2U) << "one beginning, one end";
  EXPECT_THAT(samples.firing(), IsEmpty());
}

SampleSequence firing_samples(const std::string& more = "") {
  SampleSequence samples(one_rule(more));
  samples.device().sample.celsius = 85;
  samples.sample_for(2 * kMinuteNs);
  EXPECT_THAT(samples.firing(), ElementsAre("hot"));
  return samples;
}

TEST(Judge, IsClearOnlyBeyondTheClearThresholdAndForLongEnough) {
  SampleSequence samples = firing_samples();
  samples.sample_for(kHourNs, [&](uint64_t passed) {  // trembles around both thresholds
    samples.device().sample.celsius = passed % (20 * kSecondNs) == 0 ? 69 : 81;
  });
  samples.sample_for(kHourNs, [&](uint64_t) { samples.device().sample.celsius = 70; });
  EXPECT_THAT(samples.firing(), ElementsAre("hot"));
  EXPECT_EQ(samples.notified.size(), 1U) << "flapping tells nobody";
  samples.device().sample.celsius = 69;
  samples.take_sample();
  samples.take_sample(29 * kSecondNs);
  EXPECT_THAT(samples.firing(), ElementsAre("hot"));
  samples.take_sample(kSecondNs);
  expect_ended(samples, Ending::kClear);
}

TEST(Judge, ResolvedAlertsAreShownForAWhile) {
  SampleSequence samples = firing_samples();
  samples.device().sample.celsius = 20;
  samples.sample_for(kMinuteNs);
  EXPECT_THAT(samples.rules_in(AlertState::kResolved), ElementsAre("hot"));
  samples.sample_for(15 * kMinuteNs);
  EXPECT_THAT(samples.judge.alerts(), IsEmpty());
}

TEST(Judge, FiringAgainReplacesTheResolvedOne) {
  SampleSequence samples = firing_samples();
  samples.device().sample.celsius = 20;
  samples.sample_for(kMinuteNs);
  samples.device().sample.celsius = 90;
  samples.sample_for(2 * kMinuteNs);
  ASSERT_EQ(samples.judge.alerts().size(), 1U);
  EXPECT_EQ(samples.notified[2].id, samples.notified[0].id);
  EXPECT_GT(samples.notified[2].started_unix_ns, samples.notified[1].ended_unix_ns);
}

TEST(Judge, UnknownNeitherFiresNorResolvesUntilItLastsTooLong) {
  SampleSequence samples(one_rule());
  samples.device().sample.celsius = 85;
  samples.take_sample();
  samples.device().sample.celsius.reset();
  samples.sample_for(110 * kSecondNs);
  EXPECT_THAT(samples.notified, IsEmpty());
  EXPECT_THAT(samples.pending(), ElementsAre("hot"));
  EXPECT_TRUE(samples.judge.alerts()[0].is_unknown);
  samples.device().sample.celsius = 85;
  samples.take_sample();
  ASSERT_THAT(samples.firing(), ElementsAre("hot")) << "the gap was short enough to count";
  samples.device().sample.celsius.reset();
  samples.sample_for(2 * kMinuteNs);
  EXPECT_THAT(samples.firing(), ElementsAre("hot"));
  samples.take_sample();
  expect_ended(samples, Ending::kUnknown);
}

TEST(Judge, AGapWithoutLooksIsNoTimeThatItHeld) {
  SampleSequence samples(one_rule());
  samples.device().sample.celsius = 85;
  samples.take_sample();
  samples.take_sample(kHourNs);
  EXPECT_THAT(samples.notified, IsEmpty());
  samples.take_sample(kMinuteNs);
  EXPECT_THAT(samples.firing(), ElementsAre("hot"));
}

TEST(Judge, UnknownForTooLongDropsWhatIsPending) {
  SampleSequence samples(one_rule());
  samples.device().sample.celsius = 85;
  samples.take_sample();
  samples.device().sample.celsius.reset();
  samples.sample_for(130 * kSecondNs);
  EXPECT_THAT(samples.judge.alerts(), IsEmpty());
}

TEST(Judge, ADeviceThatIsGoneTakesItsAlertsAlong) {
  SampleSequence samples = firing_samples();
  samples.machine.devices.clear();
  samples.take_sample();
  expect_ended(samples, Ending::kGone);
}

TEST(Judge, ADeviceThatMovesKeepsItsAlert) {
  SampleSequence samples = firing_samples();
  samples.machine.devices.insert(samples.machine.devices.begin(), testing::healthy_device(7));
  samples.device(1).identity.index = 1;
  samples.take_sample();
  EXPECT_EQ(samples.notified.size(), 1U);
  EXPECT_EQ(samples.judge.alerts()[0].device, 1U);
  EXPECT_EQ(samples.judge.alerts()[0].labels.at("gpu"), "0") << "its name to receivers stays";
}

TEST(Judge, AProcessThatIsGoneTakesItsAlertsAlong) {
  SampleSequence samples;
  samples.add_process(4711, 20 * kGiB).uses[0].process.busy_percent = 0;
  samples.sample_for(kHourNs + kMinuteNs);
  ASSERT_THAT(samples.firing(), ElementsAre("memory-held-idle"));
  watch::Snapshot with = samples.machine;
  samples.machine.processes.clear();
  samples.device().sample.processes.reset();
  samples.take_sample();
  EXPECT_THAT(samples.firing(), ElementsAre("memory-held-idle")) << "no list, nobody is gone";
  samples.device().sample.processes.emplace();
  samples.take_sample();
  expect_ended(samples, Ending::kGone);
  samples.machine = with;  // the same number, another process
  samples.machine.processes[0].facts.edit().start_ticks = 999'999;
  samples.take_sample();
  EXPECT_THAT(samples.firing(), IsEmpty());
  EXPECT_THAT(samples.pending(), ElementsAre("memory-held-idle"));
}

TEST(Judge, AClockThatIsSetChangesNothing) {
  SampleSequence samples(one_rule());
  samples.device().sample.celsius = 85;
  samples.take_sample();
  samples.clock_is_off_ns = -static_cast<int64_t>(48 * kHourNs);
  samples.take_sample(30 * kSecondNs);
  EXPECT_THAT(samples.notified, IsEmpty());
  samples.clock_is_off_ns = static_cast<int64_t>(48 * kHourNs);
  samples.take_sample(30 * kSecondNs);
  EXPECT_THAT(samples.firing(), ElementsAre("hot"));
  samples.device().sample.celsius = 20;
  samples.clock_is_off_ns = 0;
  samples.sample_for(kMinuteNs);
  expect_ended(samples, Ending::kClear);
  EXPECT_GE(samples.notified.back().ended_unix_ns, samples.notified.back().started_unix_ns);
}

TEST(Judge, OtherRulesKeepWhatGoesOn) {
  SampleSequence samples = firing_samples();
  samples.judge.set_rules(one_rule("advice = \"open a window\"\n"));
  samples.take_sample();
  EXPECT_EQ(samples.notified.size(), 1U);
  EXPECT_EQ(samples.judge.alerts()[0].advice, "open a window");
}

TEST(Judge, ARuleThatIsTakenAwayResolvesItsAlerts) {
  SampleSequence samples = firing_samples();
  samples.judge.set_rules(one_rule("enabled = false\n"));
  samples.take_sample();
  expect_ended(samples, Ending::kNoRule);
}

TEST(Judge, ALookThatHangsLeavesOtherAlertsAsTheyAre) {
  SampleSequence samples;
  samples.device().health.recovery_action = "reset";
  samples.take_sample();
  samples.overdue(kHourNs);
  EXPECT_THAT(samples.firing(), ElementsAre("recovery-action", "sample-overdue"));
  samples.take_sample(2 * kHourNs);
  samples.take_sample(2 * kMinuteNs);
  EXPECT_THAT(samples.firing(), ElementsAre("recovery-action"));
}

TEST(Judge, AFaultIsToldOnceForEachNumberAndEndsWithItsWindow) {
  SampleSequence samples;
  samples.take_sample();
  *samples.device().xids = {{79, 1, 0}, {48, 2, 0}};
  samples.take_sample();
  samples.sample_for(5 * kMinuteNs);
  ASSERT_EQ(samples.notified.size(), 2U);
  EXPECT_EQ(samples.notified[0].labels.at("xid"), "48");
  EXPECT_EQ(samples.notified[0].value, 2);
  EXPECT_EQ(samples.notified[1].summary, "GPU 0 (NVIDIA H200): Xid 79, the GPU fell off the bus");
  samples.sample_for(6 * kMinuteNs);
  EXPECT_THAT(samples.firing(), IsEmpty());
  (*samples.device().xids)[0].count = 2;
  samples.take_sample();
  EXPECT_THAT(samples.firing(), ElementsAre("xid-critical"));
}

TEST(Judge, WhenTooLittleIsAtStakeItIsClearWhateverTheShare) {
  SampleSequence samples;
  samples.add_process(4711, 20 * kGiB).uses[0].allocator = {10 * kGiB, 20 * kGiB, {}, {}};
  samples.sample_for(16 * kMinuteNs);
  ASSERT_THAT(samples.firing(), ElementsAre("reserve-unused"));
  samples.machine.processes[0].uses[0].allocator = {3 * kGiB, 6 * kGiB, {}, {}};  // half, but 3 GiB
  samples.sample_for(2 * kMinuteNs);
  expect_ended(samples, Ending::kClear);
}

TEST(Judge, WordsAndLabelsAreHarmless) {
  SampleSequence samples;
  watch::Process& process = samples.add_process(66, 20 * kGiB);
  process.uses[0].process.busy_percent = 0;
  watch::ProcessFacts& facts = process.facts.edit();
  facts.command = "{device}\x1b[2J" + std::string(5'000, 'A') + "\n\xff";
  facts.pod = watch::Pod{"7c1f", "trainer\x1b[0m-0", "ml"};
  samples.sample_for(kHourNs + kMinuteNs);
  ASSERT_EQ(samples.notified.size(), 1U);
  const Alert& alert = samples.notified[0];
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
    SampleSequence samples;
    samples.add_process(4711, 20 * kGiB);
    samples.sample_for(2 * kHourNs, [&](uint64_t passed) {
      const uint64_t minute = passed / kMinuteNs;
      samples.device().sample.memory.free_bytes = (79 - std::min<uint64_t>(minute, 79)) * kGiB;
      samples.device().sample.memory.used_bytes = (20 + std::min<uint64_t>(minute, 79)) * kGiB;
      samples.device().sample.celsius = static_cast<uint32_t>(60 + minute % 50);
    });
    std::string text;
    for (const Alert& alert : samples.notified)
      text += alert.id + " " + alert.summary + std::to_string(*alert.started_unix_ns) + "\n";
    return text;
  };
  const std::string once = play();
  EXPECT_NE(once, "");
  EXPECT_EQ(play(), once);
}

TEST(Judge, InstancesOfMigFillUpOneByOne) {
  SampleSequence samples;
  gpu::MigInstance full{1, 0, {}, {}, {20 * kGiB, 20 * kGiB, 0, 0}};
  gpu::MigInstance shares_it = full;
  shares_it.compute_instance = 1;
  samples.device().health.mig_instances = {
      full, shares_it, {2, 0, {}, {}, {20 * kGiB, kGiB, 19 * kGiB, 0}}};
  samples.sample_for(3 * kMinuteNs);
  EXPECT_THAT(samples.firing(), ElementsAre("memory-full", "memory-almost-full"));
  EXPECT_EQ(samples.notified[0].labels.at("mig"), "1");
  EXPECT_THAT(samples.notified[0].summary, ::testing::StartsWith("MIG 1 of GPU 0"));
}

}  // namespace
}  // namespace vram::alerts
