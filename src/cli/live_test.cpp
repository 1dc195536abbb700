// What is played is what `vram report --at` says of the same recording at the same time.
#include "cli/live.hpp"

#include "base/testing/paths.hpp"
#include "base/time.hpp"
#include "explain/explain.hpp"
#include "explain/moment/state.hpp"
#include "trace/open.hpp"
#include "watch/process_texts.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

namespace vram::cli {
namespace {

watch::ProcessFacts this_process() {
  watch::ProcessFacts facts;
  facts.pid = static_cast<uint32_t>(getpid());
  return facts;
}

class Played : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string path() { return data_path(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Recordings, Played,
                         ::testing::Values("../../demo/unet_multiscale.pickle.xz",
                                           "../../demo/leak.stacks.pickle.xz",
                                           "recordings/run.rank0.vtrace"));

TEST_P(Played, IsWhatAReportSaysAtThatTime) {
  const trace::Trace trace = trace::open_trace(path()).value();
  const watch::Playable playable = open_playable(path()).value();
  ASSERT_TRUE(trace.has_time);
  const auto report = explain::explain(trace).value();
  const auto& device = report.devices[report.main_device];
  uint64_t now_ns = 5 * kSecondNs;
  watch::Playback playback(playable, [&] { return now_ns; });
  const uint64_t end_ns = playable.length_ns - kSecondNs;
  constexpr uint64_t kSteps = 7;
  for (uint64_t step = 0; step <= kSteps; ++step) {
    const uint64_t at_ns = end_ns * step / kSteps;
    // The second round is the same as the first.
    now_ns = 5 * kSecondNs + at_ns + (step % 2) * playable.length_ns;
    const auto sample = playback.take_sample();
    const auto totals =
        explain::find_state(trace, report, report.main_device, {explain::MomentKind::kTime, at_ns})
            .value()
            .moment.totals;
    const auto posted = playback.figures_of(this_process()).value().devices[0];
    EXPECT_EQ(posted.device, device.ordinal);
    EXPECT_EQ(posted.allocated_bytes, totals.allocated_bytes) << at_ns;
    EXPECT_EQ(posted.reserved_bytes, totals.reserved_bytes) << at_ns;
    EXPECT_EQ(sample.memory.used_bytes, totals.reserved_bytes) << at_ns;
    EXPECT_GE(posted.peak_bytes, posted.allocated_bytes);
    EXPECT_LE(posted.peak_bytes, device.peak.allocated.totals.allocated_bytes);
    if (step == kSteps) {
      EXPECT_EQ(posted.peak_bytes, device.peak.allocated.totals.allocated_bytes);
    }
  }
}

TEST(Live, CommandLinesAreShortenedAsRequested) {
  const LiveSource source{.recording = data_path("../../demo/unet_multiscale.pickle.xz")};
  const auto command = [&](watch::CommandLines commands) {
    return Live::of(source, commands).value().take_sample().processes.at(0).facts->command;
  };
  const std::string full = command(watch::CommandLines::kFull).value();
  EXPECT_EQ(command(watch::CommandLines::kName), watch::program_name(full));
  EXPECT_FALSE(command(watch::CommandLines::kOff));
}

TEST(Playable, ARecordingWithoutAClockTakesAMinute) {
  const explain::MemoryTimeline timeline{.ordinal = 2,
                                         .has_time = false,
                                         .end_ns = 6,
                                         .memory_bytes = 100,
                                         .peak_requested_bytes = 7,
                                         .points = {{0, 1, 2}, {3, 4, 5}}};
  const watch::Playable playable = playable_of(timeline);
  EXPECT_EQ(playable.device, 2U);
  EXPECT_EQ(playable.total_bytes, 100U);
  EXPECT_EQ(playable.length_ns, 61 * kSecondNs);
  ASSERT_EQ(playable.points.size(), 2U);
  EXPECT_EQ(playable.points[1].time_ns, 30 * kSecondNs);
  EXPECT_EQ(playable.points[1].allocated_bytes, 4U);
  EXPECT_EQ(playable.points[1].reserved_bytes, 5U);
}

TEST(Playable, WhatIsNoRecordingIsRefused) {
  EXPECT_FALSE(open_playable("/nowhere/run.vtrace").has_value());
}

}  // namespace
}  // namespace vram::cli
