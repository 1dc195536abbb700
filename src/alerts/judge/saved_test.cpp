// A Judge that a later process continues: alerts, clocks, trends and counts of faults.
#include "alerts/testing/samples.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace vram::alerts {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kBeginning;
using testing::SampleSequence;

ClockReading clock_of(const SampleSequence& samples, uint64_t boot = 1) {
  return {.now_ns = samples.now_ns,
          .unix_ns = kBeginning + static_cast<int64_t>(samples.now_ns),
          .boot = boot};
}

// A kill and a new start, `after_ns` later; Xids are counted from 0 again.
void restart(SampleSequence& samples, uint64_t after_ns = 0, uint64_t boot_after = 1) {
  const ClockReading then = clock_of(samples);
  const SavedJudge saved{samples.judge.saved_alerts(then), samples.judge.saved_figures(then)};
  Judge next(samples.judge.rules());
  samples.now_ns += after_ns;
  ClockReading now = clock_of(samples, boot_after);
  const auto restored = next.restore(saved, now);
  ASSERT_TRUE(restored) << restored.error().message;
  std::destroy_at(&samples.judge);
  std::construct_at(&samples.judge, std::move(next));
  for (watch::Device& device : samples.machine.devices) device.xids.emplace();
}

// Three hours in which much happens: each minute `change` may restart the program.
template <typename Restart>
SampleSequence lived_through(Restart may_restart) {
  SampleSequence samples;
  samples.machine.devices.push_back(testing::healthy_device(1));
  samples.add_process(4711, 20 * kGiB);
  samples.sample_for(3 * kHourNs, [&](uint64_t passed) {
    if (passed % kMinuteNs == 0) may_restart(samples);
    const uint64_t minute = passed / kMinuteNs;
    watch::Device& device = samples.device();
    device.sample.celsius = minute / 20 % 2 == 1 ? 95 : 60;
    device.sample.memory.used_bytes = 20 * kGiB + passed / kSecondNs * 6 * kMiB;
    device.sample.memory.free_bytes = 99 * kGiB - *device.sample.memory.used_bytes;
    device.health.ecc_since_boot.uncorrected = minute < 30 ? 3 : 4;
    device.health.remapped_rows->is_pending = minute >= 40 && minute < 90;
    if (passed == 50 * kMinuteNs) device.xids = {{79, 1, 0}};
    if (minute == 100) samples.machine.devices.resize(1);
    if (minute == 120 && samples.machine.devices.size() == 1)
      samples.machine.devices.push_back(testing::healthy_device(1));
  });
  return samples;
}

std::vector<std::string> story(const SampleSequence& samples) {
  std::vector<std::string> lines;
  for (const Alert& alert : samples.notified)
    lines.push_back(fmt::format("{} {} {} {} {}", alert.id, identifier(alert.state),
                                alert.started_unix_ns.value_or(0), alert.ended_unix_ns.value_or(0),
                                alert.ending ? identifier(*alert.ending) : ""));
  return lines;
}

TEST(JudgeSaved, RestartsEachMinuteChangeNothing) {
  const auto without = story(lived_through([](SampleSequence&) {}));
  ASSERT_GE(without.size(), 12U) << "much happens";
  EXPECT_EQ(story(lived_through([](SampleSequence& samples) { restart(samples); })), without);
}

SampleSequence hot_samples() {
  SampleSequence samples;
  samples.device().sample.celsius = 95;
  samples.sample_for(4 * kMinuteNs);
  EXPECT_THAT(samples.pending(), ElementsAre("temperature"));
  return samples;
}

TEST(JudgeSaved, TheClockOfWhatIsPendingGoesOn) {
  SampleSequence samples = hot_samples();
  restart(samples, 2 * kMinuteNs);
  samples.take_sample(kSecondNs);
  EXPECT_THAT(samples.firing(), ElementsAre("temperature")) << "for 5 minutes by now";
}

TEST(JudgeSaved, ATimeTooLongWithoutLooksBeginsItAnew) {
  SampleSequence samples = hot_samples();
  restart(samples, 6 * kMinuteNs);
  samples.take_sample(kSecondNs);
  EXPECT_THAT(samples.pending(), ElementsAre("temperature"));
}

TEST(JudgeSaved, AfterARebootTheMachinesClockCounts) {
  SampleSequence samples = hot_samples();
  samples.sample_for(2 * kMinuteNs);
  ASSERT_THAT(samples.firing(), ElementsAre("temperature"));
  const ClockReading then = clock_of(samples);
  Judge next(samples.judge.rules());
  const ClockReading now{.now_ns = 20 * kSecondNs,
                         .unix_ns = then.unix_ns + static_cast<int64_t>(2 * kMinuteNs),
                         .boot = 2};
  ASSERT_TRUE(
      next.restore({samples.judge.saved_alerts(then), samples.judge.saved_figures(then)}, now));
  ASSERT_EQ(next.alerts().size(), 1U);
  watch::Sampled well;
  well.snapshot = samples.machine;
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
  SampleSequence samples = hot_samples();
  samples.sample_for(2 * kMinuteNs);
  restart(samples, 10 * kMinuteNs);
  const auto devices = std::exchange(samples.machine.devices, {});
  samples.machine.notes = {"nvml: the driver is not loaded"};
  samples.sample_for(4 * kMinuteNs);
  EXPECT_THAT(samples.firing(), ElementsAre("temperature")) << "it may just be late";
  samples.machine.devices = devices;
  samples.machine.notes.clear();
  samples.take_sample(kSecondNs);
  EXPECT_EQ(samples.notified.size(), 1U) << "one beginning, and no end";
}

TEST(JudgeSaved, AGpuThatIsMissingIsMissedByTheNextProcess) {
  SampleSequence samples;
  samples.machine.devices.push_back(testing::healthy_device(1));
  samples.take_sample();
  restart(samples);
  samples.machine.devices.pop_back();
  samples.sample_for(6 * kMinuteNs);
  EXPECT_THAT(samples.firing(), ElementsAre("gpu-missing"));
  samples.sample_for(24 * kHourNs, [](uint64_t) {}, kMinuteNs);
  EXPECT_THAT(samples.firing(), ElementsAre("gpu-missing")) << "it does not come back by itself";
}

// After a new start of the machine, with a clock that is `ahead_ns` further.
void reboot(SampleSequence& samples, uint64_t ahead_ns) {
  const ClockReading then = clock_of(samples);
  Judge next(samples.judge.rules());
  samples.now_ns = 20 * kSecondNs;
  samples.clock_is_off_ns = then.unix_ns - kBeginning + static_cast<int64_t>(ahead_ns);
  const ClockReading now{
      .now_ns = samples.now_ns,
      .unix_ns = kBeginning + static_cast<int64_t>(samples.now_ns) + samples.clock_is_off_ns,
      .boot = 2};
  ASSERT_TRUE(
      next.restore({samples.judge.saved_alerts(then), samples.judge.saved_figures(then)}, now));
  std::destroy_at(&samples.judge);
  std::construct_at(&samples.judge, std::move(next));
}

TEST(JudgeSaved, AClockThatIsYearsAheadAfterARebootForgetsNoGpu) {
  SampleSequence samples;
  samples.machine.devices.push_back(testing::healthy_device(1));
  samples.take_sample();
  samples.machine.devices.pop_back();
  samples.sample_for(6 * kMinuteNs);
  ASSERT_THAT(samples.firing(), ElementsAre("gpu-missing"));
  reboot(samples, 10 * 365 * 24 * kHourNs);
  samples.sample_for(kHourNs);
  EXPECT_THAT(samples.firing(), ElementsAre("gpu-missing"));
  EXPECT_EQ(samples.notified.size(), 1U);
}

// In a container: what the driver names by a number may never have been seen.
TEST(JudgeSaved, ANumberOfBeforeARebootIsNoDeadProcess) {
  SampleSequence samples;
  samples.add_process(4711, kGiB);
  samples.take_sample();
  reboot(samples, 60 * kSecondNs);
  watch::Process& stranger = samples.machine.processes[0];
  stranger.facts = {};
  stranger.facts.edit().pid = 4711;
  samples.sample_for(10 * kMinuteNs);
  EXPECT_THAT(samples.firing(), IsEmpty());
}

// With a process whose allocator reports this number of out-of-memory errors.
SampleSequence samples_with_ooms(uint64_t count) {
  SampleSequence samples;
  samples.add_process(4711, kGiB).uses[0].allocator.emplace().num_ooms = count;
  samples.take_sample();
  EXPECT_THAT(samples.firing(), IsEmpty()) << "what there is at first is old";
  return samples;
}

void set_ooms(SampleSequence& samples, uint64_t count) {
  samples.machine.processes[0].uses[0].allocator->num_ooms = count;
  samples.take_sample();
}

TEST(JudgeSaved, AnOutOfMemoryErrorBetweenTwoProcessesIsNoticed) {
  SampleSequence samples = samples_with_ooms(3);
  restart(samples, kMinuteNs);
  set_ooms(samples, 4);
  EXPECT_THAT(samples.firing(), ElementsAre("out-of-memory"));
}

TEST(JudgeSaved, OutOfMemoryErrorsOfBeforeStayOld) {
  SampleSequence samples = samples_with_ooms(3);
  restart(samples, kMinuteNs);
  set_ooms(samples, 3);
  EXPECT_THAT(samples.firing(), IsEmpty());
}

// Its number and even its start may be those of another one of before.
TEST(JudgeSaved, AProcessOfAfterARebootIsANewOne) {
  SampleSequence samples = samples_with_ooms(3);
  reboot(samples, kMinuteNs);
  set_ooms(samples, 4);
  EXPECT_THAT(samples.firing(), IsEmpty());
}

TEST(JudgeSaved, AnAlertWhoseRuleIsGoneIsResolved) {
  SampleSequence samples = hot_samples();
  samples.sample_for(2 * kMinuteNs);
  const ClockReading now = clock_of(samples);
  const SavedJudge saved{samples.judge.saved_alerts(now), samples.judge.saved_figures(now)};
  Judge other(RuleBook::parse("[rules.temperature]\nenabled = false\n", "r").value());
  ASSERT_TRUE(other.restore(saved, now));
  watch::Sampled sampled;
  sampled.snapshot = samples.machine;
  sampled.begin_ns = now.now_ns;
  const auto changes = other.judge(sampled);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.ending, Ending::kNoRule);
}

TEST(JudgeSaved, WhatIsNoneChangesNothing) {
  SampleSequence samples = hot_samples();
  const ClockReading now = clock_of(samples);
  const std::string alerts = samples.judge.saved_alerts(now);
  for (size_t length = 1; length < alerts.size(); length += 7)
    EXPECT_FALSE(samples.judge.restore({alerts.substr(0, length), ""}, now)) << length;
  EXPECT_THAT(samples.pending(), ElementsAre("temperature"));
}

// A driver that answers once a minute is one alert, and one that hangs over a restart, too.
TEST(JudgeSaved, ADriverThatHangsIsOneAlert) {
  SampleSequence samples;
  samples.take_sample();
  for (int minute = 0; minute < 10; ++minute) {
    samples.overdue(30 * kSecondNs);
    samples.overdue(61 * kSecondNs);
    samples.take_sample(62 * kSecondNs);
  }
  restart(samples);
  for (uint64_t second = 1; second < 90; ++second) samples.overdue(second * kSecondNs);
  EXPECT_EQ(samples.notified.size(), 1U);
}

}  // namespace
}  // namespace vram::alerts
