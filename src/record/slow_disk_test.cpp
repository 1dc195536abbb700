// A disk that is slow, hangs or is full: the program is delayed a bounded time, and every record
// that is not in the file is counted.
#include "record/testing/slow_disk.hpp"

#include "record/record.hpp"
#include "record/testing/recorder_fixture.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace vram::record {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class SlowDiskTest : public RecorderFixture {
 protected:
  void TearDown() override {
    disk().hangs = false;
    disk().delay_ms = 0;
    RecorderFixture::TearDown();
  }
  static milliseconds since(Clock::time_point begin) {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
  }
};

TEST_F(SlowDiskTest, AHangingDiskDelaysTheProgramOnceForABoundedTime) {
  constexpr uint64_t kMore = 30;
  start({.path = path()});
  disk().hangs = true;
  uint64_t recorded = 0;
  for (; disk().hanging_calls == 0; std::this_thread::sleep_for(milliseconds(1)))
    alloc(++recorded << 12);
  const auto begin = Clock::now();
  for (uint64_t i = 0; i < Ring::kRecords + kMore; ++i) alloc(++recorded << 12);
  EXPECT_LT(since(begin).count(), 2000) << "ms, for " << kMore << " records that have no place";
  const auto later = Clock::now();
  std::thread([&] {
    for (uint64_t i = 0; i < Ring::kRecords + kMore; ++i) alloc(++recorded << 12);
  }).join();
  EXPECT_LT(since(later).count(), 1000) << "ms: that the disk hangs is known by now";
  disk().hangs = false;
  ASSERT_TRUE(Recorder::stop());
  EXPECT_GT(Recorder::counts().lost_records, 0u);
  EXPECT_EQ(Recorder::counts().written_records + Recorder::counts().lost_records, recorded);
  EXPECT_EQ(read(path()).events.size(), Recorder::counts().written_records);
}

TEST_F(SlowDiskTest, StopWritesAllOrCountsWhatItGaveUp) {
  constexpr uint64_t kThreads = 16;
  constexpr uint64_t kEach = 16'000;  // a ring holds them
  constexpr uint64_t kTurn = 500;     // the rings' records alternate
  start({.path = path()});
  disk().hangs = true;
  uint64_t recorded = 0;
  for (; disk().hanging_calls == 0; std::this_thread::sleep_for(milliseconds(1)))
    alloc(++recorded << 12);
  std::atomic<uint64_t> turn{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= kThreads; ++t) {
    threads.emplace_back([t, &turn] {
      for (uint64_t i = 0; i < kEach; ++i) {
        while (i % kTurn == 0 && turn % kThreads != t - 1) std::this_thread::yield();
        alloc(t << 40 | i << 12);
        if (i % kTurn == kTurn - 1) ++turn;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  recorded += kThreads * kEach;
  disk().delay_ms = 100;
  disk().hangs = false;
  ASSERT_TRUE(Recorder::stop());
  EXPECT_EQ(read(path()).events.size() + Recorder::counts().lost_records, recorded);
  EXPECT_EQ(Recorder::counts().lost_records, 0u) << "the disk was slow, but it went on";
}

// As when a network's file system is gone. The recording after it is another one.
TEST_F(SlowDiskTest, StopGivesADiskUpThatHangs) {
  start({.path = path()});
  disk().hangs = true;
  uint64_t recorded = 0;
  for (; disk().hanging_calls == 0; std::this_thread::sleep_for(milliseconds(1)))
    alloc(++recorded << 12);
  const auto begin = Clock::now();
  const auto stopped = Recorder::stop();
  EXPECT_LT(since(begin).count(), 8000) << "ms";
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message.find("the disk has taken nothing for 5 s"), std::string::npos);
  EXPECT_EQ(Recorder::counts().written_records + Recorder::counts().lost_records, recorded);
  disk().hangs = false;
  start({.path = path("next.vtrace")});
  for (uint64_t i = 1; i <= 1000; ++i) alloc(i << 12);
  ASSERT_TRUE(Recorder::stop());
  EXPECT_EQ(Recorder::counts().lost_records, 0u);
  EXPECT_EQ(read(path("next.vtrace")).events.size(), 1000u);
}

}  // namespace
}  // namespace vram::record
