// What threads record and leave behind when they end: their scopes, their rings, and what the
// destructors of their thread_local variables still record.
#include "record/testing/recorder_fixture.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

namespace vram::record {
namespace {

class ThreadsTest : public RecorderFixture {};

std::atomic<uint64_t> next_address{0};

void record_one() {
  Recorder::emit({.address = 0x1000 * ++next_address,
                  .size_bytes = 1,
                  .scope = ScopeStack::current(),
                  .op = Op::kAlloc});
}

// A device buffer's cache, as libraries keep one in each thread: what it holds is freed when the
// thread ends. Made before the thread's first record, so destroyed after what the recorder keeps.
struct Cache {
  static constexpr int kBlocks = 40;
  bool is_used = false;
  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  ~Cache() {
    for (int i = 0; is_used && i < kBlocks; ++i) {
      record_one();
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }
};
thread_local Cache cache;

TEST_F(ThreadsTest, EachScopeThatBeginsEnds) {
  start({.path = path()});
  alloc(0x1000);
  for (int round = 0; round < 3; ++round) {
    Recorder::scope_begin("");
    for (uint32_t i = 0; i < ScopeStack::kMaxNestedScopes + 6; ++i) Recorder::scope_begin("deep");
    for (uint32_t i = 0; i < ScopeStack::kMaxNestedScopes + 6; ++i) Recorder::scope_end();
    Recorder::scope_end();
  }
  ASSERT_TRUE(Recorder::stop());
  const trace::Trace trace = read(path());
  const auto begins = std::ranges::count_if(trace.annotations, &trace::Annotation::is_begin);
  EXPECT_EQ(begins, 3 * (ScopeStack::kMaxNestedScopes - 1)) << "the one without a name is one";
  EXPECT_EQ(trace.annotations.size(), 2 * static_cast<size_t>(begins));
}

TEST_F(ThreadsTest, RecordsOfADestructorDoNotShareARingWithANewThread) {
  constexpr int kSpawners = 12;
  constexpr int kRounds = 12;
  start({.path = path()});
  next_address = 0;
  std::vector<std::thread> spawners;
  for (int s = 0; s < kSpawners; ++s) {
    spawners.emplace_back([] {
      for (int round = 0; round < kRounds; ++round) {
        std::thread([] {
          cache.is_used = true;
          Recorder::scope_begin("work");
          for (int i = 0; i < 5; ++i) record_one();
          Recorder::scope_end();
          // Its ring is empty when it ends: the next thread may have it.
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
        }).join();
      }
    });
  }
  for (std::thread& spawner : spawners) spawner.join();
  const uint64_t recorded = next_address;
  ASSERT_TRUE(Recorder::stop());
  const trace::Trace trace = read(path());
  std::set<uint64_t> addresses;
  for (const trace::Event& event : trace.events) addresses.insert(event.address);
  EXPECT_EQ(recorded, uint64_t{kSpawners} * kRounds * (5 + Cache::kBlocks));
  EXPECT_EQ(addresses.size(), trace.events.size()) << "no record is written twice";
  EXPECT_EQ(addresses.size() + Recorder::counts().lost_records, recorded);
  EXPECT_EQ(Recorder::counts().lost_records, 0u);
}

// As a signal's handler does that records at whatever instruction of its thread's own recording:
// the place that the thread is filling must not be filled by both.
TEST_F(ThreadsTest, ATurnWithinAnotherTurnHasNoRing) {
  {
    const Rings::Turn outer;
    EXPECT_NE(outer.ring(), nullptr);
    const Rings::Turn inner;
    EXPECT_EQ(inner.ring(), nullptr);
  }
  EXPECT_NE(Rings::Turn().ring(), nullptr);
}

// The thread that led the process's scopes ended with one open.
TEST_F(ThreadsTest, AnEndedThreadLeadsNobody) {
  std::thread([] {
    while (ScopeStack::current() == 0) Recorder::scope_begin("of the dead");  // leads, perhaps
  }).join();
  start({.path = path()});
  std::thread([] { alloc(0x1000); }).join();
  ASSERT_TRUE(Recorder::stop());
  const trace::Trace trace = read(path());
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.tables.strings[trace.tables.contexts[trace.events[0].context].user_metadata], "");
}

}  // namespace
}  // namespace vram::record
