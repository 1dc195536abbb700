// A Judge that a later process goes on from: alerts, clocks, trends and counts of faults.
#include "watch/rules/testing/looks.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace vram::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kBeginning;
using testing::Looks;

ClockReading clock_of(const Looks& looks, uint64_t boot = 1) {
  return {.now_ns = looks.now_ns,
          .unix_ns = kBeginning + static_cast<int64_t>(looks.now_ns),
          .boot = boot};
}

// A kill and a new start, `after_ns` later; Xids are counted from 0 again.
void restart(Looks& looks, uint64_t after_ns = 0, uint64_t boot_after = 1) {
  const ClockReading then = clock_of(looks);
  const SavedJudge saved{looks.judge.saved_alerts(then), looks.judge.saved_figures(then)};
  Judge next(looks.judge.rules());
  looks.now_ns += after_ns;
  ClockReading now = clock_of(looks, boot_after);
  const auto restored = next.restore(saved, now);
  ASSERT_TRUE(restored) << restored.error().message;
  std::destroy_at(&looks.judge);
  std::construct_at(&looks.judge, std::move(next));
  for (Device& device : looks.machine.devices) device.xids.emplace();
}

// Three hours in which much happens: each minute `change` may start the program anew.
template <typename Restart>
Looks lived_through(Restart may_restart) {
  Looks looks;
  looks.machine.devices.push_back(testing::healthy_device(1));
  looks.add_process(4711, 20 * kGiB);
  looks.look_for(3 * kHourNs, [&](uint64_t passed) {
    if (passed % kMinuteNs == 0) may_restart(looks);
    const uint64_t minute = passed / kMinuteNs;
    Device& device = looks.device();
    device.sample.celsius = minute / 20 % 2 == 1 ? 95 : 60;
    device.sample.memory.used_bytes = 20 * kGiB + passed / kSecondNs * 6 * kMiB;
    device.sample.memory.free_bytes = 99 * kGiB - *device.sample.memory.used_bytes;
    device.health.ecc_since_boot.uncorrected = minute < 30 ? 3 : 4;
    device.health.remapped_rows->is_pending = minute >= 40 && minute < 90;
    if (passed == 50 * kMinuteNs) device.xids = {{79, 1, 0}};
    if (minute == 100) looks.machine.devices.resize(1);
    if (minute == 120 && looks.machine.devices.size() == 1)
      looks.machine.devices.push_back(testing::healthy_device(1));
  });
  return looks;
}

std::vector<std::string> story(const Looks& looks) {
  std::vector<std::string> lines;
  for (const Alert& alert : looks.told)
    lines.push_back(fmt::format("{} {} {} {} {}", alert.id, identifier(alert.state),
                                alert.started_unix_ns.value_or(0), alert.ended_unix_ns.value_or(0),
                                alert.ending ? identifier(*alert.ending) : ""));
  return lines;
}

TEST(JudgeSaved, RestartsEachMinuteChangeNothing) {
  const auto without = story(lived_through([](Looks&) {}));
  ASSERT_GE(without.size(), 12U) << "much happens";
  EXPECT_EQ(story(lived_through([](Looks& looks) { restart(looks); })), without);
}

Looks hot_looks() {
  Looks looks;
  looks.device().sample.celsius = 95;
  looks.look_for(4 * kMinuteNs);
  EXPECT_THAT(looks.pending(), ElementsAre("temperature"));
  return looks;
}

TEST(JudgeSaved, TheClockOfWhatIsPendingGoesOn) {
  Looks looks = hot_looks();
  restart(looks, 2 * kMinuteNs);
  looks.look(kSecondNs);
  EXPECT_THAT(looks.firing(), ElementsAre("temperature")) << "for 5 minutes by now";
}

TEST(JudgeSaved, ATimeTooLongWithoutLooksBeginsItAnew) {
  Looks looks = hot_looks();
  restart(looks, 6 * kMinuteNs);
  looks.look(kSecondNs);
  EXPECT_THAT(looks.pending(), ElementsAre("temperature"));
}

TEST(JudgeSaved, AfterARebootTheMachinesClockCounts) {
  Looks looks = hot_looks();
  looks.look_for(2 * kMinuteNs);
  ASSERT_THAT(looks.firing(), ElementsAre("temperature"));
  const ClockReading then = clock_of(looks);
  Judge next(looks.judge.rules());
  const ClockReading now{.now_ns = 20 * kSecondNs,
                         .unix_ns = then.unix_ns + static_cast<int64_t>(2 * kMinuteNs),
                         .boot = 2};
  ASSERT_TRUE(next.restore({looks.judge.saved_alerts(then), looks.judge.saved_figures(then)}, now));
  ASSERT_EQ(next.alerts().size(), 1U);
  Sampled well;
  well.snapshot = looks.machine;
  well.snapshot.devices[0].sample.celsius = 40;
  well.snapshot.time_ns = now.unix_ns;
  well.begin_ns = now.now_ns;
  EXPECT_THAT(next.judge(well), IsEmpty()) << "clear, and not for long enough";
  well.begin_ns += kMinuteNs;
  well.snapshot.time_ns += static_cast<int64_t>(kMinuteNs);
  const auto changes = next.judge(well);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.ending, Ending::kClear);
}

TEST(JudgeSaved, ADriverThatIsNotThereYetResolvesNothing) {
  Looks looks = hot_looks();
  looks.look_for(2 * kMinuteNs);
  restart(looks, 10 * kMinuteNs);
  const auto devices = std::exchange(looks.machine.devices, {});
  looks.machine.notes = {"nvml: the driver is not loaded"};
  looks.look_for(4 * kMinuteNs);
  EXPECT_THAT(looks.firing(), ElementsAre("temperature")) << "it may just be late";
  looks.machine.devices = devices;
  looks.machine.notes.clear();
  looks.look(kSecondNs);
  EXPECT_EQ(looks.told.size(), 1U) << "one beginning, and no end";
}

TEST(JudgeSaved, AGpuThatIsMissingIsMissedByTheNextProcess) {
  Looks looks;
  looks.machine.devices.push_back(testing::healthy_device(1));
  looks.look();
  restart(looks);
  looks.machine.devices.pop_back();
  looks.look_for(6 * kMinuteNs);
  EXPECT_THAT(looks.firing(), ElementsAre("gpu-missing"));
  looks.look_for(24 * kHourNs, [](uint64_t) {}, kMinuteNs);
  EXPECT_THAT(looks.firing(), ElementsAre("gpu-missing")) << "it does not come back by itself";
}

// After a new start of the machine, with a clock that is `ahead_ns` further.
void reboot(Looks& looks, uint64_t ahead_ns) {
  const ClockReading then = clock_of(looks);
  Judge next(looks.judge.rules());
  looks.now_ns = 20 * kSecondNs;
  looks.clock_is_off_ns = then.unix_ns - kBeginning + static_cast<int64_t>(ahead_ns);
  const ClockReading now{
      .now_ns = looks.now_ns,
      .unix_ns = kBeginning + static_cast<int64_t>(looks.now_ns) + looks.clock_is_off_ns,
      .boot = 2};
  ASSERT_TRUE(next.restore({looks.judge.saved_alerts(then), looks.judge.saved_figures(then)}, now));
  std::destroy_at(&looks.judge);
  std::construct_at(&looks.judge, std::move(next));
}

TEST(JudgeSaved, AClockThatIsYearsAheadAfterARebootForgetsNoGpu) {
  Looks looks;
  looks.machine.devices.push_back(testing::healthy_device(1));
  looks.look();
  looks.machine.devices.pop_back();
  looks.look_for(6 * kMinuteNs);
  ASSERT_THAT(looks.firing(), ElementsAre("gpu-missing"));
  reboot(looks, 10 * 365 * 24 * kHourNs);
  looks.look_for(kHourNs);
  EXPECT_THAT(looks.firing(), ElementsAre("gpu-missing"));
  EXPECT_EQ(looks.told.size(), 1U);
}

// In a container: what the driver names by a number may never have been seen.
TEST(JudgeSaved, ANumberOfBeforeARebootIsNoDeadProcess) {
  Looks looks;
  looks.add_process(4711, kGiB);
  looks.look();
  reboot(looks, 60 * kSecondNs);
  Process& stranger = looks.machine.processes[0];
  stranger.facts = {};
  stranger.facts.edit().pid = 4711;
  looks.look_for(10 * kMinuteNs);
  EXPECT_THAT(looks.firing(), IsEmpty());
}

TEST(JudgeSaved, AnAlertWhoseRuleIsGoneIsResolved) {
  Looks looks = hot_looks();
  looks.look_for(2 * kMinuteNs);
  const ClockReading now = clock_of(looks);
  const SavedJudge saved{looks.judge.saved_alerts(now), looks.judge.saved_figures(now)};
  Judge other(RuleBook::parse("[rules.temperature]\nenabled = false\n", "r").value());
  ASSERT_TRUE(other.restore(saved, now));
  Sampled sampled;
  sampled.snapshot = looks.machine;
  sampled.begin_ns = now.now_ns;
  const auto changes = other.judge(sampled);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.ending, Ending::kNoRule);
}

TEST(JudgeSaved, WhatIsNoneChangesNothing) {
  Looks looks = hot_looks();
  const ClockReading now = clock_of(looks);
  const std::string alerts = looks.judge.saved_alerts(now);
  for (size_t length = 1; length < alerts.size(); length += 7)
    EXPECT_FALSE(looks.judge.restore({alerts.substr(0, length), ""}, now)) << length;
  EXPECT_THAT(looks.pending(), ElementsAre("temperature"));
}

// A driver that answers once a minute is one alert, and one that hangs over a restart, too.
TEST(JudgeSaved, ADriverThatHangsIsOneAlert) {
  Looks looks;
  looks.look();
  for (int minute = 0; minute < 10; ++minute) {
    looks.overdue(30 * kSecondNs);
    looks.overdue(61 * kSecondNs);
    looks.look(62 * kSecondNs);
  }
  restart(looks);
  for (uint64_t second = 1; second < 90; ++second) looks.overdue(second * kSecondNs);
  EXPECT_EQ(looks.told.size(), 1U);
}

}  // namespace
}  // namespace vram::watch
