// A recording as a device: what it holds when, and that all of it reaches the snapshot.
#include "watch/playback.hpp"

#include "base/bytes.hpp"
#include "base/time.hpp"
#include "watch/take_snapshot.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

namespace vram::watch {
namespace {

class PlaybackTest : public ::testing::Test {
 protected:
  // Reserved 100 from 0 s, 300 from 2 s; allocated 10 from 0 s, 250 from 2 s, 50 from 3 s; a round
  // takes 5 s.
  static Playable playable() {
    return {.points = {{0, 10, 100}, {2 * kSecondNs, 250, 300}, {3 * kSecondNs, 50, 300}},
            .length_ns = 5 * kSecondNs,
            .device = 3,
            .total_bytes = 1000};
  }
  std::shared_ptr<Playback> play(Playable what) {
    return std::make_shared<Playback>(std::move(what), [this] { return now_ns_; });
  }
  static ProcessFacts this_process() {
    ProcessFacts facts;
    facts.pid = static_cast<uint32_t>(getpid());
    return facts;
  }
  uint64_t now_ns_ = 77 * kSecondNs;  // when the playing begins
};

TEST_F(PlaybackTest, HoldsWhatTheRecordingHeldAtThatTimeAndBeginsAnew) {
  const auto playback = play(playable());
  struct Expected {
    uint64_t at_ns, reserved, allocated, peak;
  };
  for (const Expected& expected : {Expected{0, 100, 10, 10},
                                   {2 * kSecondNs - 1, 100, 10, 10},
                                   {2 * kSecondNs, 300, 250, 250},
                                   {3 * kSecondNs, 300, 50, 250},
                                   {5 * kSecondNs - 1, 300, 50, 250},
                                   {5 * kSecondNs, 100, 10, 10},
                                   {12 * kSecondNs, 300, 250, 250}}) {
    now_ns_ = 77 * kSecondNs + expected.at_ns;
    const gpu::DeviceSample sample = playback->take_sample();
    EXPECT_EQ(sample.memory.total_bytes, 1000U);
    EXPECT_EQ(sample.memory.used_bytes, expected.reserved) << expected.at_ns;
    EXPECT_EQ(sample.memory.free_bytes, 1000 - expected.reserved);
    EXPECT_EQ(sample.busy_percent, std::nullopt);
    ASSERT_EQ(sample.processes.value().size(), 1U);
    EXPECT_EQ(sample.processes->front().used_bytes, expected.reserved);
    const auto posted = playback->figures_of(this_process()).value().devices[0];
    EXPECT_EQ(posted.allocated_bytes, expected.allocated) << expected.at_ns;
    EXPECT_EQ(posted.reserved_bytes, expected.reserved);
    EXPECT_EQ(posted.cached_bytes, expected.reserved - expected.allocated);
    EXPECT_EQ(posted.peak_bytes, expected.peak) << expected.at_ns;
  }
}

TEST_F(PlaybackTest, FiguresAreThoseOfTheSampleNotOfTheMomentTheyAreAskedFor) {
  const auto playback = play(playable());
  (void)playback->take_sample();
  now_ns_ += 2 * kSecondNs;
  EXPECT_EQ(playback->figures_of(this_process()).value().devices[0].allocated_bytes, 10U);
  ProcessFacts other = this_process();
  ++other.pid;
  EXPECT_EQ(playback->figures_of(other), std::nullopt);
}

TEST_F(PlaybackTest, TheDeviceHasRoomForWhatWasReserved) {
  Playable what = playable();
  what.total_bytes = 300;
  EXPECT_EQ(play(what)->take_sample().memory.total_bytes, 300U);
  what.total_bytes = 299;  // what was recorded can't be
  EXPECT_EQ(play(what)->take_sample().memory.total_bytes, kGiB);
  what.total_bytes.reset();
  what.points[1].reserved_bytes = 5 * kGiB;
  EXPECT_EQ(play(what)->take_sample().memory.total_bytes, 8 * kGiB);
  what.points[1].reserved_bytes = UINT64_MAX;
  EXPECT_EQ(play(what)->take_sample().memory.total_bytes, std::nullopt);
  EXPECT_EQ(play(what)->take_sample().memory.free_bytes, std::nullopt);
}

TEST_F(PlaybackTest, TheDeviceIsShownByTheNameItIsGiven) {
  Playable what = playable();
  what.name = "simulated GPU (demo unet)";
  EXPECT_EQ(PlayedGpu(play(what)).identity(0).name, "simulated GPU (demo unet)");
}

TEST_F(PlaybackTest, ASnapshotHasTheDeviceTheProcessAndItsAllocator) {
  const auto playback = play(playable());
  Sources sources({opener_of("sim", [&]() -> Result<PlayedGpu> { return PlayedGpu(playback); })});
  ProcessTable table;
  now_ns_ += 3 * kSecondNs;
  const Snapshot snapshot = take_snapshot({77, "node7"}, sources.read(), table, *playback);
  EXPECT_TRUE(snapshot.notes.empty());
  ASSERT_EQ(snapshot.devices.size(), 1U);
  EXPECT_EQ(snapshot.devices[0].identity.name, "simulated GPU");
  EXPECT_EQ(snapshot.devices[0].identity.vendor, gpu::Vendor::kSimulated);
  EXPECT_EQ(snapshot.devices[0].unattributed_bytes, 0);
  ASSERT_EQ(snapshot.processes.size(), 1U);
  EXPECT_EQ(snapshot.processes[0].facts->pid, static_cast<uint32_t>(getpid()));
  ASSERT_EQ(snapshot.processes[0].uses.size(), 1U);
  const AllocatorFigures figures = snapshot.processes[0].uses[0].allocator.value();
  EXPECT_EQ(figures.allocated_bytes, 50U);
  EXPECT_EQ(figures.reserved_bytes, 300U);
  EXPECT_EQ(figures.cached_bytes, 250U);
  EXPECT_EQ(figures.peak_bytes, 250U);
}

}  // namespace
}  // namespace vram::watch
