// Recorder: what threads say is in the file, in order, whatever happens to the process.
#include "record/recorder.hpp"

#include "base/bytes.hpp"
#include "base/testing/waiting.hpp"
#include "record/testing/recorder_fixture.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace vram::record {
namespace {

using trace::EventKind;

class RecorderTest : public RecorderFixture {};

std::string context_of(const trace::Trace& trace, const trace::Event& event) {
  return std::string(trace.tables.strings[trace.tables.contexts[event.context].user_metadata]);
}

TEST_F(RecorderTest, WhatIsSaidIsInTheFile) {
  start({.path = path()});
  Recorder::step();
  Recorder::scope_begin("forward");
  Recorder::scope_begin("layers.0");
  alloc(0x1000, 300);
  Recorder::scope_end();
  alloc(0x2000, 512, 1);
  Recorder::scope_end();
  Recorder::name(0, 0x1000, 300, "weight", "parameter");
  free(0x1000);
  ASSERT_TRUE(Recorder::stop());
  const trace::Trace trace = read(path());
  ASSERT_EQ(trace.devices.size(), 2u);
  const auto events = trace.events_of(trace.devices[0]);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].size_bytes, 300u);
  EXPECT_EQ(context_of(trace, events[0]), "forward/layers.0");
  EXPECT_EQ(events[1].kind, EventKind::kAnnotate);
  EXPECT_EQ(trace.tables.strings[trace.tables.contexts[events[1].context].category], "parameter");
  EXPECT_EQ(events[2].kind, EventKind::kFreeCompleted);
  EXPECT_EQ(events[2].size_bytes, 300u)
      << "a free names its address only: its block knows the size";
  EXPECT_EQ(context_of(trace, trace.events_of(trace.devices[1])[0]), "forward");
  ASSERT_EQ(trace.annotations.size(), 5u);
  EXPECT_EQ(trace.tables.strings[trace.annotations[0].name], "step 0");
}

TEST_F(RecorderTest, AStatedTimeReplacesTheClock) {
  start({.path = path()});
  for (const int64_t time_ns : {int64_t{5'000'000}, int64_t{5'000'700}}) {
    Recorder::state_time(time_ns);
    alloc(static_cast<uint64_t>(time_ns), 512);
  }
  alloc(0x2000, 512);
  ASSERT_TRUE(Recorder::stop());
  const trace::Trace trace = read(path());
  std::vector<int64_t> times;
  for (const trace::Event& event : trace.events) times.push_back(event.time_ns);
  EXPECT_EQ(times, (std::vector<int64_t>{5'000'000, 5'000'700, 5'000'700}));

  start({.path = path()});
  alloc(0x1000, 512);
  ASSERT_TRUE(Recorder::stop());
  EXPECT_GT(read(path()).events[0].time_ns, 5'000'700) << "it ends with its recording";
}

// Another stream is waited for; the block's own need not be.
TEST_F(RecorderTest, AFreeWaitsForOtherStreams) {
  start({.path = path()});
  for (const uint64_t user : {uint64_t{8}, uint64_t{16}}) {
    Recorder::emit({.address = 0x1000, .size_bytes = 512, .stream = 8, .op = Op::kAlloc});
    Recorder::emit({.address = 0x1000, .stream = user, .op = Op::kUse});
    free(0x1000);
  }
  Recorder::emit({.address = 0x1000, .op = Op::kFreeCompleted});
  ASSERT_TRUE(Recorder::stop());
  const trace::Trace trace = read(path());
  std::vector<EventKind> kinds;
  for (const trace::Event& event : trace.events) kinds.push_back(event.kind);
  EXPECT_EQ(kinds, (std::vector{EventKind::kAlloc, EventKind::kFreeCompleted, EventKind::kAlloc,
                                EventKind::kFreeRequested, EventKind::kFreeCompleted}));
}

// Pages that a block takes along say whose they are, and so does a setting.
TEST_F(RecorderTest, AStitchedBlockTakesItsPagesAlong) {
  start({.path = path()});
  const TextId ours = stores().texts.intern(trace::kVramPool);
  const auto say = [&](Op op, uint64_t address, uint64_t bytes, uint64_t stream = 0) {
    const bool is_memory = op == Op::kSegmentMap || op == Op::kPart;
    Recorder::emit({.address = address,
                    .size_bytes = bytes,
                    .stream = stream,
                    .text = is_memory ? ours : 0,
                    .op = op});
  };
  say(Op::kSegmentMap, 0x100000, 0x4000);
  say(Op::kPart, 0x101000, 0x1000, 0x900000);
  say(Op::kPart, 0x103000, 0x1000, 0x900000);
  say(Op::kAlloc, 0x900000, 0x2000);
  say(Op::kFree, 0x900000, 0);
  ASSERT_TRUE(Recorder::stop());
  const trace::Trace trace = read(path());
  using Row = std::pair<EventKind, uint64_t>;
  std::vector<Row> rows;
  for (const trace::Event& event : trace.events) {
    rows.emplace_back(event.kind, event.address);
    const bool is_named =
        trace.tables.strings[trace.tables.contexts[event.context].category] == trace::kVramPool;
    EXPECT_EQ(is_named, trace::is_segment_event(event.kind)) << event.address;
  }
  EXPECT_EQ(rows, (std::vector<Row>{{EventKind::kSegmentMap, 0x100000},
                                    {EventKind::kSegmentUnmap, 0x101000},
                                    {EventKind::kSegmentUnmap, 0x103000},
                                    {EventKind::kSegmentMap, 0x900000},
                                    {EventKind::kAlloc, 0x900000},
                                    {EventKind::kFreeCompleted, 0x900000},
                                    {EventKind::kSegmentUnmap, 0x900000},
                                    {EventKind::kSegmentMap, 0x101000},
                                    {EventKind::kSegmentMap, 0x103000}}));
  ASSERT_EQ(trace.settings.size(), 1u);
  EXPECT_EQ(trace.settings[0].key, trace::kAllocatorSetting);
  EXPECT_EQ(trace.settings[0].value, trace::kVramPool);
}

TEST_F(RecorderTest, OnlyOneAtATime) {
  start({.path = path()});
  const auto second = Recorder::start({.path = path("other.vtrace")});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("run.vtrace is being recorded already"), std::string::npos);
}

TEST_F(RecorderTest, AFileThatCantBeMadeIsSaidAtOnce) {
  const auto started = Recorder::start({.path = path("no/such/folder/run.vtrace")});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kIo);
  EXPECT_FALSE(Recorder::is_on());
}

// In a child, where files may have 256 KiB: as if the disk had no more.
int record_too_much(const std::string& path) {
  const rlimit limit{256 * kKiB, 256 * kKiB};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 3;
  if (!Recorder::start({.path = path})) return 4;
  std::mt19937_64 random(3);
  uint64_t recorded = 0;
  const auto is_off = [&] {
    for (int i = 0; i < 1000; ++i)
      recorded +=
          Recorder::emit({.address = random(), .size_bytes = random() % kGiB, .op = Op::kAlloc});
    return !Recorder::is_on();
  };
  if (!eventually(is_off)) return 7;
  if (Recorder::emit({.address = 1, .op = Op::kAlloc}) || Recorder::capture_stack() != 0) return 8;
  if (Recorder::start({.path = path + ".other"})) return 9;  // it was not stopped yet
  const auto stopped = Recorder::stop();
  const RecorderCounts counts = Recorder::counts();
  if (counts.lost_records == 0 || counts.written_records + counts.lost_records != recorded)
    return 6;
  if (stopped || stopped.error().message.find("File too large") == std::string::npos) return 5;
  return Recorder::stop() ? 0 : 4;  // said once
}

TEST_F(RecorderTest, ADiskThatIsFullSwitchesTheRecordingOffAndIsSaidOnceAtTheEnd) {
  const pid_t child = fork();
  if (child == 0) _exit(record_too_much(path()));
  const int status = status_of_child(child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_GT(read(path()).events.size(), 1000u) << "what fitted is there";
}

// Threads hand blocks to each other; in the file no address is allocated twice without a free.
TEST_F(RecorderTest, ManyThreadsAreInOneOrder) {
  constexpr int kThreads = 6;
  // no more than a ring holds: none is given up on a slow machine
  constexpr uint64_t kEach = 8'000;
  start({.path = path()});
  std::array<std::atomic<bool>, 64> is_taken{};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (uint64_t i = 0; i < kEach; ++i) {
        const size_t block = random() % is_taken.size();
        if (is_taken[block].exchange(true)) continue;
        alloc(0x10000 + block * 512, 512);
        free(0x10000 + block * 512);
        is_taken[block].store(false);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(Recorder::stop());
  EXPECT_EQ(Recorder::counts().lost_records, 0u);
  const trace::Trace trace = read(path());
  std::map<uint64_t, int> live;
  for (const trace::Event& event : trace.events_of(trace.devices.at(0))) {
    const int now = live[event.address] += event.kind == EventKind::kAlloc ? 1 : -1;
    ASSERT_TRUE(now == 0 || now == 1);
  }
  EXPECT_GT(trace.events.size(), kThreads * kEach / 2);
}

TEST_F(RecorderTest, FollowersHaveTheLeadersScope) {
  start({.path = path()});
  Recorder::scope_begin("backward");
  std::thread([] {
    alloc(0x1000, 1);
    Recorder::scope_begin("layer");
    alloc(0x2000, 1);
    Recorder::scope_end();
  }).join();
  Recorder::scope_end();
  std::thread([] { alloc(0x3000, 1); }).join();
  ASSERT_TRUE(Recorder::stop());
  const trace::Trace trace = read(path());
  EXPECT_EQ(context_of(trace, trace.events[0]), "backward");
  EXPECT_EQ(context_of(trace, trace.events[1]), "backward/layer");
  EXPECT_EQ(context_of(trace, trace.events[2]), "");
}

void say(Op op, uint64_t address, uint64_t bytes) {
  Recorder::emit({.address = address, .size_bytes = bytes, .stream = 7, .op = op});
}

TEST_F(RecorderTest, WhatTheAllocatorHoldsAtTheEndIsThereToCheckAgainst) {
  start({.path = path()});
  Recorder::setting("expandable_segments", "True");
  say(Op::kSegmentMap, 0x100000, 4096);
  say(Op::kAlloc, 0x100000, 500);
  say(Op::kAlloc, 0x100200, 900);
  say(Op::kFreeRequested, 0x100200, 900);
  say(Op::kHeldSegment, 0x100000, 4096);
  say(Op::kHeldBlock, 0x100000, 512);
  say(Op::kHeldPending, 0x100200, 1024);
  say(Op::kHeldFree, 0x100600, 2560);
  Recorder::name(0, 0x100000, 500, "weight", "parameter");  // changes nothing that is held
  ASSERT_TRUE(Recorder::stop());
  const trace::Trace trace = read(path());
  ASSERT_EQ(trace.settings.size(), 1u);
  EXPECT_EQ(trace.settings[0].value, "True");
  const trace::DeviceTrace& device = trace.devices.at(0);
  ASSERT_TRUE(device.has_end_state);
  ASSERT_EQ(device.segments.size(), 1u);
  EXPECT_TRUE(device.segments[0].is_expandable);
  EXPECT_EQ(trace.tables.streams[device.segments[0].stream], 7u);
  EXPECT_EQ(device.segments[0].claimed_allocated_bytes, 512u);
  EXPECT_EQ(device.segments[0].claimed_active_bytes, 512u + 1024);
  EXPECT_EQ(device.segments[0].claimed_requested_bytes, 500u + 900);
  ASSERT_EQ(device.blocks.size(), 3u);
  EXPECT_EQ(device.blocks[0].requested_bytes, 500u);
  EXPECT_EQ(device.blocks[1].state, trace::BlockState::kPendingFree);
  EXPECT_EQ(device.blocks[2].state, trace::BlockState::kInactive);
}

TEST_F(RecorderTest, WhatWasHeldIsVoidOnceSomethingHappens) {
  start({.path = path()});
  say(Op::kSegmentAlloc, 0x100000, 4096);
  say(Op::kHeldSegment, 0x100000, 4096);
  say(Op::kHeldFree, 0x100000, 4096);
  say(Op::kAlloc, 0x100000, 500);
  ASSERT_TRUE(Recorder::stop());
  EXPECT_FALSE(read(path()).devices.at(0).has_end_state);
}

TEST_F(RecorderTest, WithALimitTheLatestStays) {
  start({.path = path(), .limit_bytes = kMiB});
  std::mt19937_64 random(1);
  alloc(0x7000, 42);  // lives through all
  Recorder::name(0, 0x7000, 42, "w", "parameter");
  for (uint64_t i = 0; i < 900'000; ++i) {
    const uint64_t address = (1 + random() % 100'000) << 20;
    alloc(address, 1 + random() % 100'000);
    free(address);
    if ((2 * i) % kHalfOfARing == 0) wait_for_flusher();
  }
  ASSERT_TRUE(Recorder::stop());
  ASSERT_EQ(Recorder::counts().lost_records, 0u);
  const uint64_t kept =
      std::filesystem::file_size(path()) + std::filesystem::file_size(path("run.old.vtrace"));
  EXPECT_LT(kept, kMiB + kMiB / 2);
  EXPECT_GT(Recorder::counts().file_bytes, 2 * kept) << "older parts have gone";
  for (const char* name : {"run.vtrace", "run.old.vtrace"}) {
    const trace::Trace trace = read(path(name));
    ASSERT_FALSE(trace.events.empty());
    EXPECT_EQ(trace.events[0].address, 0x7000u) << name << " begins with what was there";
    EXPECT_EQ(trace.events[1].kind, EventKind::kAnnotate);
    EXPECT_EQ(context_of(trace, trace.events[1]), "w");
  }
}

// A child process that records until it is killed.
pid_t child_that_records(const std::string& path) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (!Recorder::start({.path = path})) _exit(3);
  for (uint64_t i = 0;; ++i) {
    Recorder::emit({.address = 0x1000 * (1 + i % 50), .size_bytes = i, .op = Op::kAlloc});
    Recorder::emit({.address = 0x1000 * (1 + i % 50), .op = Op::kFree});
    if (i % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

int64_t now_ns() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

TEST_F(RecorderTest, AKilledProcessLeavesAReadableFile) {
  std::mt19937 random(7);
  int64_t worst_ns = 0;
  for (int round = 0; round < 200; ++round) {
    const pid_t child = child_that_records(path());
    ASSERT_GT(child, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 120));
    const int64_t killed_ns = now_ns();
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (!std::filesystem::exists(path())) continue;  // before it had begun
    if (std::filesystem::file_size(path()) == 0) continue;
    const auto opened = trace::open_trace(path());
    ASSERT_TRUE(opened) << "round " << round << ": " << opened.error().message;
    if (!opened->events.empty())
      worst_ns = std::max(worst_ns, killed_ns - opened->events.span().back().time_ns);
    std::filesystem::remove(path());
  }
  RecordProperty("worst_loss_ms", static_cast<int>(worst_ns / 1'000'000));
}

TEST_F(RecorderTest, ChildrenOfALazyRecordingHaveTheirOwnFiles) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer starts no threads in the child of a program that has some";
#endif
  start({.path = path(), .is_lazy = true});
  EXPECT_FALSE(std::filesystem::exists(path()));
  alloc(0x1000, 1);
  const pid_t child = fork();
  if (child == 0) {
    alloc(0x2000, 2);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      alloc(0x3000, 3);
      _exit(Recorder::stop() ? 0 : 1);
    }
    int childs_status = 1;
    (void)waitpid(grandchild, &childs_status, 0);
    _exit(Recorder::stop() && childs_status == 0 ? 0 : 1);
  }
  const int status = status_of_child(child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(Recorder::stop());
  // The first writer takes the name.
  std::multiset<uint64_t> addresses;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    for (const trace::Event& event : read(entry.path().string()).events)
      addresses.insert(event.address);
  }
  EXPECT_EQ(addresses, (std::multiset<uint64_t>{0x1000, 0x2000, 0x3000}));
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(RecorderTest, ChildrenOfAnotherRecordingStaySilent) {
  start({.path = path()});
  const pid_t child = fork();
  if (child == 0) {
    alloc(0x2000, 2);
    _exit(Recorder::is_on() ? 1 : 0);
  }
  const int status = status_of_child(child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(Recorder::stop());
  EXPECT_TRUE(read(path()).events.empty());
}

}  // namespace
}  // namespace vram::record
