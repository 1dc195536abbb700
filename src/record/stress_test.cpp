// Threads that come, record, die and fork while recordings start, restart and stop: every record
// that emit() took is in a file or counted as lost, to the last one.
#include "base/bytes.hpp"
#include "base/testing/sanitizers.hpp"
#include "base/testing/waiting.hpp"
#include "record/testing/recorder_fixture.hpp"
#include "record/testing/slow_disk.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

namespace vram::record {
namespace {

using testing::kCountsMemory;

// ThreadSanitizer starts no threads in the child of a program that has some. In the child, the lock
// of AddressSanitizer's quarantine stays taken if another thread held it at the fork: the first
// thread that ends there hangs.
constexpr bool kForks = !testing::kHasThreadSanitizer && !testing::kHasAddressSanitizer;

// What emit() took, by all threads of this process.
std::atomic<uint64_t> emitted{0};
std::atomic<bool> is_over{false};

// Each makes one event in a file that does not restart: an address is allocated once.
void record_random_event(std::mt19937& random) {
  static std::atomic<uint64_t> next_address{0};
  const bool is_alloc = random() % 8 == 0;
  const bool is_taken = Recorder::emit({.address = is_alloc ? ++next_address << 12 : 0,
                                        .size_bytes = 1 + random() % 4096,
                                        .scope = ScopeStack::current(),
                                        .op = is_alloc ? Op::kAlloc : Op::kOom});
  if (is_taken) ++emitted;
}

// Records while its thread ends.
struct Dying {
  std::mt19937 random{1};
  bool is_used = false;
  Dying() = default;
  Dying(const Dying&) = delete;
  Dying& operator=(const Dying&) = delete;
  ~Dying() {
    for (int i = 0; is_used && i < 20; ++i) record_random_event(random);
  }
};
thread_local Dying dying;

void live_shortly(uint64_t seed) {
  dying.is_used = true;  // before the first record: destroyed late
  dying.random.seed(seed);
  std::mt19937 random(seed);
  const uint64_t count = random() % 300;
  for (uint64_t i = 0; i < count; ++i) record_random_event(random);
}

void come_and_go(uint64_t seed) {
  std::mt19937 random(seed);
  while (!is_over) {
    std::array<std::thread, 3> threads;
    for (std::thread& thread : threads) thread = std::thread(live_shortly, random());
    for (std::thread& thread : threads) thread.join();
  }
}

void go_on(uint64_t seed) {
  std::mt19937 random(seed);
  while (!is_over) {
    for (int i = 0; i < 200; ++i) record_random_event(random);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
  }
}

// The child's own recording, if it has one: what it emits is accounted for there.
int record_in_child(uint64_t seed) {
  (void)alarm(50);
  disk().hangs = false;
  std::mt19937 random(seed);
  emitted = 0;
  for (int i = 0; i < 100; ++i) record_random_event(random);
  std::thread(live_shortly, seed).join();
  const bool is_on = Recorder::is_on();
  (void)Recorder::stop();
  const RecorderCounts counts = Recorder::counts();
  if (!is_on) return emitted == 0 ? 0 : 2;
  return counts.written_records + counts.lost_records == emitted ? 0 : 3;
}

void fork_now_and_then(uint64_t seed, std::atomic<int>* failures) {
  std::mt19937 random(seed);
  while (!is_over) {
    const pid_t child = fork();
    if (child == 0) _exit(record_in_child(random()));
    if (status_of_child(child) != 0) ++*failures;
    (void)random();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

class StressTest : public RecorderFixture {
 protected:
  // That of the last recording; those of children are theirs.
  static void check_file(const RecorderCounts& counts, bool is_limited) {
    std::array<char, 512> name{};
    if (Recorder::copy_path(name) == 0) {
      EXPECT_EQ(counts.written_records, 0u);
      return;
    }
    const auto trace = trace::open_trace(name.data());
    ASSERT_TRUE(trace) << trace.error().message;
    if (!is_limited) {
      EXPECT_EQ(trace->events.size(), counts.written_records);
    }
    std::filesystem::remove(name.data());
  }
};

TEST_F(StressTest, WrittenAndLostAreWhatWasEmitted) {
  const auto time =
      std::getenv("VRAM_DEEP") != nullptr ? std::chrono::seconds(60) : std::chrono::seconds(3);
  is_over = false;
  emitted = 0;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t) threads.emplace_back(come_and_go, 10 + t);
  for (unsigned t = 0; t < 3; ++t) threads.emplace_back(go_on, 20 + t);
  for (unsigned t = 0; kForks && t < 2; ++t)
    threads.emplace_back(fork_now_and_then, 30 + t, &failures);
  std::mt19937 random(5);
  uint64_t written = 0;
  uint64_t lost = 0;
  int recordings = 0;
  const auto end = std::chrono::steady_clock::now() + time;
  for (; std::chrono::steady_clock::now() < end || recordings < 6; ++recordings) {
    const bool is_lazy = random() % 2 == 0;
    const bool is_limited = random() % 2 == 0;
    start({.path = path(), .limit_bytes = is_limited ? kMiB : 0, .is_lazy = is_lazy});
    disk().hangs = recordings % 8 == 3;
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    if (disk().hangs) {
      EXPECT_TRUE(eventually([] { return Recorder::counts().lost_records > 0; }));
    }
    disk().hangs = false;
    const auto stopped = Recorder::stop();
    EXPECT_TRUE(stopped) << stopped.error().message;
    const RecorderCounts counts = Recorder::counts();
    written += counts.written_records;
    lost += counts.lost_records;
    check_file(counts, is_limited);
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(written + lost, emitted);
  EXPECT_EQ(failures, 0);
  RecordProperty("recordings", recordings);
  RecordProperty("emitted", std::to_string(emitted));
  RecordProperty("lost", std::to_string(lost));
}

// Forks while another thread starts the process's first recording, which makes what is made once.
int fork_while_the_first_recording_starts(const std::string& path) {
  std::atomic<bool> may_start{false};
  std::thread starter([&] {
    while (!may_start) std::this_thread::yield();
    (void)Recorder::start({.path = path});
  });
  std::array<pid_t, 8> children{};
  may_start = true;
  for (pid_t& child : children) {
    child = fork();
    if (child == 0) _exit(0);
  }
  const bool all_ended =
      std::ranges::all_of(children, [](pid_t child) { return status_of_child(child) == 0; });
  starter.join();
  (void)Recorder::stop();
  return all_ended ? 0 : 2;
}

// Before this process records: each child's first recording is its own.
TEST(FirstRecordingTest, AProcessThatIsForkedMeanwhileGoesOn) {
  if (!kForks || Recorder::is_started())
    GTEST_SKIP() << "forks, or a first recording, are not possible here";
  const std::string path = ::testing::TempDir() + "first." + std::to_string(getpid()) + ".vtrace";
  for (int i = 0; i < 300; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(fork_while_the_first_recording_starts(path));
    ASSERT_EQ(status_of_child(child), 0) << "process " << i;
  }
  std::filesystem::remove(path);
}

}  // namespace

// Recordings that start and stop leave nothing behind in the process.

namespace {

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
