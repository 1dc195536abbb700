// Recordings that start and stop leave nothing behind in the process.
#include "record/testing/recorder_fixture.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace vram::record {
namespace {

// Sanitizers keep what is freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsMemory = false;
#elif defined(__has_feature)
constexpr bool kCountsMemory = !__has_feature(address_sanitizer);
#else
constexpr bool kCountsMemory = true;
#endif

class LeaksTest : public RecorderFixture {};

long open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

long resident_kib() {
  std::ifstream file("/proc/self/statm");
  long all = 0;
  long resident = 0;
  file >> all >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST_F(LeaksTest, TwoThousandRecordingsLeaveNoDescriptorAndNoMemory) {
  const auto record_once = [this] {
    start({.path = path()});
    for (uint64_t i = 1; i <= 64; ++i) alloc(0x1000 * i);
    ASSERT_TRUE(Recorder::stop());
  };
  for (int i = 0; i < 200; ++i) record_once();
  const long descriptors = open_descriptors();
  const long resident = resident_kib();
  for (int i = 0; i < 2000; ++i) record_once();
  EXPECT_EQ(open_descriptors(), descriptors);
  if (kCountsMemory) {
    EXPECT_LT(resident_kib() - resident, 2048) << "KiB of memory more";
  }
}

// A ring is 1 MiB of address space; memory it takes as it is used.
TEST_F(LeaksTest, ThreadsThatRecordLittleTakeLittleMemory) {
  constexpr int kThreads = 64;
  start({.path = path()});
  const long resident = resident_kib();
  std::atomic<int> recorded{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&recorded] {
      alloc(0x1000);
      for (++recorded; recorded < kThreads;)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (kCountsMemory) {
    EXPECT_LT(resident_kib() - resident, kThreads * 256) << "KiB of memory more";
  }
}

}  // namespace
}  // namespace vram::record
