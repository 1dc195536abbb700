// The flight recorder: what a dump holds, when one is written, and what remains.
#include "base/testing/sanitizers.hpp"
#include "base/testing/waiting.hpp"
#include "record/recorder.hpp"
#include "record/testing/flight_fixture.hpp"
#include "record/threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace vram::record {
namespace {

using std::chrono::milliseconds;
using trace::EventKind;

class FlightTest : public FlightFixture {
 protected:
  static inline int stores_used = 0;
};

TEST_F(FlightTest, ADumpHoldsTheLastStepsWithAllThatIsAlive) {
  start(options());
  alloc(0x100, 7);  // long before what is retained
  run_steps(0, 100);
  const std::string file = dump();
  EXPECT_EQ(file, path("flight.1.request.vtrace"));
  const trace::Trace trace = read(file);
  EXPECT_FALSE(trace.origin.truncated_at_byte) << "a dump is complete";
  const auto blocks = alive(trace);
  EXPECT_EQ(blocks.size(), 4u);
  EXPECT_EQ(blocks.at(0x100), 7u);
  EXPECT_EQ(blocks.at(kBase + 99 * 512), 199u);
  const uint64_t first = std::stoull(first_step(trace).substr(5));
  EXPECT_LE(first, 90u) << "at least 10 steps";
  EXPECT_GE(first, 78u) << "at most twice as many, and the one under way";
}

// As a program that names a scope after each of its steps.
TEST_F(FlightTest, WithoutRoomForTextsNoScopeStaysOpenAndWhatWasThereIsFound) {
  start(options());
  alloc(0x100, 7);
  for (int i = 0; i < 30'000; ++i) {
    Recorder::scope_begin("scope " + std::to_string(i));
    Recorder::scope_end();
  }
  run_steps(0, 30);
  const trace::Trace trace = read(dump());
  int open = 0;
  for (const trace::Annotation& each : trace.annotations) {
    if (trace.tables.strings[each.name].starts_with("step")) continue;
    open += each.is_begin ? 1 : -1;
  }
  EXPECT_EQ(open, 0);
  const auto events = trace.events_of(trace.devices[0]);
  const auto found = std::ranges::find(events, 0x100U, &trace::Event::address);
  ASSERT_NE(found, events.end());
  EXPECT_EQ(trace.tables.strings[trace.tables.contexts[found->context].category],
            trace::kFoundBlock);
}

TEST_F(FlightTest, RecordsGoOnAfterADump) {
  start(options());
  run_steps(0, 30);
  (void)dump();
  run_steps(30, 33);
  const trace::Trace trace = read(dump());
  EXPECT_EQ(alive(trace).size(), 3u);
  EXPECT_EQ(alive(trace).at(kBase + 32 * 512), 132u);
}

TEST_F(FlightTest, AnEndWithoutReasonLeavesNothing) {
  start(options());
  run_steps(0, 50);
  ASSERT_TRUE(Recorder::stop());
  EXPECT_TRUE(files().empty());
  EXPECT_FALSE(Recorder::dump(milliseconds(10)));
}

TEST_F(FlightTest, AFailedRequestWritesAFileBeforeItIsSettled) {
  start(options());
  run_steps(0, 20);
  Recorder::emit({.address = 4096, .size_bytes = 1 << 20, .op = Op::kOom});
  Recorder::settle();
  const trace::Trace trace = read(path("flight.1.oom.vtrace"));
  const auto events = trace.events_of(trace.devices[0]);
  EXPECT_EQ(events.back().kind, EventKind::kOom);
  EXPECT_EQ(events.back().size_bytes, uint64_t{1} << 20);
  const auto is_reason = [](const trace::Setting& about) { return about.key == "flight.reason"; };
  EXPECT_EQ(std::ranges::find_if(trace.about, is_reason)->value, "oom");
}

// A step keeps 3 MiB, from the 20th on.
TEST_F(FlightTest, GrowthWritesAFileThatSaysSo) {
  start(options({.steps = 10}));
  for (uint64_t step = 0; step < 120; ++step) {
    Recorder::step();
    alloc(kBase, 100 << 20);
    free(kBase);
    if (step >= 20) alloc(2 * kBase + step * 4096, 3 << 20);
  }
  (void)dump();  // all records are judged
  const trace::Trace trace = read(path("flight.1.growth.vtrace"));
  const auto rule = std::ranges::find(trace.about, "flight.rule", &trace::Setting::key);
  ASSERT_NE(rule, trace.about.end());
  EXPECT_NE(rule->value.find("grew from"), std::string::npos) << rule->value;
}

TEST_F(FlightTest, ItsLimitsEndWithIt) {
  start(options());
  while (stores().texts.intern("text " + std::to_string(stores_used++)) != 0) continue;
  ASSERT_TRUE(Recorder::stop());
  EXPECT_NE(stores().texts.intern("text " + std::to_string(stores_used)), 0u);
}

TEST_F(FlightTest, OfManyFailuresTheLatestFilesAreKept) {
  start(options({.steps = 10, .max_files = 2}));
  for (int i = 0; i < 5; ++i) {
    run_steps(static_cast<uint64_t>(i), static_cast<uint64_t>(i) + 1);
    Recorder::emit({.size_bytes = 1, .op = Op::kOom});
    Recorder::settle();
  }
  ASSERT_TRUE(Recorder::stop());
  EXPECT_EQ(files(), (std::vector<std::string>{"flight.1.oom-4.vtrace", "flight.1.oom-5.vtrace"}));
}

void write_text(const std::string& path) { std::ofstream(path) << "not a recording"; }
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// As in a container that starts again after each failure.
TEST_F(FlightTest, NoProcessReplacesTheFilesOfAFormerOneWithItsPid) {
  for (int process = 0; process < 3; ++process) {
    const int status = status_of_work([&] {
      Recorder::emit({.size_bytes = 1, .op = Op::kOom});
      Recorder::settle();
      if (process == 2) _exit(Recorder::stop() ? 7 : 92);
      std::this_thread::sleep_for(milliseconds(400));
      (void)kill(getpid(), SIGKILL);
    });
    EXPECT_EQ(process == 2, WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"flight.1.killed-2.vtrace", "flight.1.killed.vtrace",
                                               "flight.1.oom-2.vtrace", "flight.1.oom-3.vtrace",
                                               "flight.1.oom.vtrace"}));
}

TEST_F(FlightTest, ItRemovesNoFileThatWasPutInThePlaceOfItsOwn) {
  start(options({.steps = 10, .max_files = 1}));
  const std::string first = dump();
  std::filesystem::remove(first);
  write_text(first);
  (void)dump();
  ASSERT_TRUE(Recorder::stop());
  EXPECT_EQ(text_of(first), "not a recording");
}

TEST_F(FlightTest, AKilledProcessLeavesWhatItRetained) {
  const int status = status_of_work([] {
    std::this_thread::sleep_for(milliseconds(400));
    (void)kill(getpid(), SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(alive(read(path("flight.1.vtrace"))).size(), 3u);
  // A later process with this pid does not replace it.
  start(options());
  ASSERT_TRUE(Recorder::stop());
  EXPECT_EQ(files(), std::vector<std::string>{"flight.1.killed.vtrace"});
}

TEST_F(FlightTest, TheChildOfAForkHasNoneAndTheParentsGoesOn) {
  start(options());
  DumpSignals::set_enabled(true);
  run_steps(0, 5);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_on = Recorder::is_on() || Recorder::is_flight();
    (void)Recorder::stop();
    _exit(is_on ? 1 : 0);
  }
  EXPECT_EQ(vram::status_of_child(child), 0);
  run_steps(5, 6);
  EXPECT_EQ(alive(read(dump())).size(), 3u);
  DumpSignals::set_enabled(false);
}

TEST_F(FlightTest, ASecondOneIsRefused) {
  start(options());
  const auto second = Recorder::start(options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kBadInput);
  run_steps(0, 5);
  EXPECT_EQ(alive(read(dump())).size(), 3u) << "the first one continues";
}

TEST_F(FlightTest, AFolderThatIsNotThereIsAnError) {
  RecorderOptions nowhere = options();
  nowhere.path = path("no/such/flight.1.vtrace");
  EXPECT_FALSE(Recorder::start(nowhere));
  EXPECT_FALSE(Recorder::is_on());
}

// Of former processes: the user has to look at them.
TEST_F(FlightTest, BeyondAHundredFilesOfOthersADumpFailsAndEndsNothing) {
  for (int i = 1; i <= 100; ++i) {
    write_text(path(i == 1 ? "flight.1.request.vtrace"
                           : "flight.1.request-" + std::to_string(i) + ".vtrace"));
  }
  start(options());
  run_steps(0, 5);
  for (int i = 0; i < 2; ++i) {
    const auto failed = Recorder::dump(milliseconds(20'000));
    ASSERT_FALSE(failed);
    EXPECT_NE(failed.error().message.find("99 more files"), std::string::npos)
        << failed.error().message;
  }
  std::filesystem::remove(path("flight.1.request-50.vtrace"));
  run_steps(5, 6);
  EXPECT_EQ(alive(read(dump())).size(), 3u);
}

// The window itself can't be written any more.
TEST_F(FlightTest, AFullDiskEndsItAndTheProgramContinues) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit small{size_t{64} << 10, size_t{64} << 10};
    (void)setrlimit(RLIMIT_FSIZE, &small);
    std::signal(SIGXFSZ, SIG_IGN);
    if (!Recorder::start(options({.steps = 0, .duration = {}}))) _exit(1);
    for (uint64_t i = 0; Recorder::is_on() && i < 10'000'000; ++i) alloc(kBase + i % 1000 * 512, i);
    if (Recorder::is_on()) _exit(2);
    const auto dumped = Recorder::dump(milliseconds(20'000));
    if (dumped || dumped.error().message.find("File too large") == std::string::npos) _exit(3);
    const auto stopped = Recorder::stop();
    _exit(!stopped && stopped.error().code == Code::kIo ? 0 : 4);
  }
  EXPECT_EQ(vram::status_of_child(child), 0);
}

TEST_F(FlightTest, ThreadsRecordWhileFilesAreWritten) {
  start(options({.max_bytes = FlightOptions::kMinBytes, .steps = 0, .max_files = 2}));
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (uint64_t i = 0; i < 20'000; ++i) {
        const uint64_t address = (thread + 1) << 40 | (i % 50) << 9;
        alloc(address, 512 + i % 50);
        free(address);
      }
    });
  }
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(dump().empty());
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(alive(read(dump())).empty());
}

// What the process and the files take, however much happens: stacks, texts and blocks that differ.
TEST_F(FlightTest, MemoryIsBounded) {
  if (!testing::kCountsMemory) GTEST_SKIP() << "a sanitizer keeps what is freed";
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    uint64_t all = 0;
    uint64_t pages = 0;
    file >> all >> pages;
    return pages * 4096;
  };
  start(options({.steps = 0, .duration = {}}));
  constexpr uint64_t kLive = 32'000;
  const uint64_t before = resident();
  uint64_t most = before;
  for (uint64_t i = 0; i < 3'000'000; ++i) {
    const std::vector<FrameNumber> frames = {static_cast<FrameNumber>(i % 700'000), 1, 2, 3, 4, 5};
    const uint64_t address = (i % kLive) * 512 + kBase;
    if (i >= kLive) free(address);
    Recorder::emit({.address = address,
                    .size_bytes = i * 7919 % 100'003,
                    .stack = stores().stacks.intern(frames),
                    .scope = stores().texts.intern("scope " + std::to_string(i % 300'000)),
                    .op = Op::kAlloc});
    if (i % 10'000 == 0) most = std::max(most, resident());
  }
  (void)dump();
  uint64_t on_disk = 0;
  for (const char* name : {"flight.1.vtrace", "flight.1.next.vtrace"})
    on_disk += std::filesystem::file_size(path(name));
  EXPECT_LE(on_disk, uint64_t{24} << 20);
  EXPECT_LE(std::max(most, resident()) - before, uint64_t{64} << 20);
}

TEST_F(FlightTest, TooManyLiveBlocksEndIt) {
  start(options({.steps = 10, .max_live_blocks = 100}));
  for (uint64_t i = 0; i < 200; ++i) alloc(kBase + i * 512);
  EXPECT_TRUE(eventually([] { return !Recorder::is_on(); }));
  const auto stopped = Recorder::stop();
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message.find("more than 100 blocks"), std::string::npos);
}

// A thread may be between the two halves of a request while the flusher takes it.
TEST_F(FlightTest, EachRequestIsFinished) {
  Dumps requests;
  std::atomic<bool> is_over{false};
  std::thread flusher([&] {
    while (!is_over) {
      if (const auto taken = requests.take()) requests.finish(taken->ticket);
    }
  });
  int done = 0;
  while (done < 2000 && requests.wait(requests.request(DumpReason::kOom), milliseconds(1000)))
    ++done;
  EXPECT_EQ(done, 2000);
  is_over = true;
  flusher.join();
}

TEST_F(FlightTest, ADumpSaysWhatWasLostJustBefore) {
  start(options());
  const auto lost = [](const trace::Trace& trace) {
    uint64_t count = 0;
    for (const auto& note : trace.origin.notes) count += note.count;
    return count;
  };
  for (uint64_t i = 1; i <= 10; ++i) {
    run_steps(i, i + 1);
    ASSERT_TRUE(traffic().given_up.add());
    EXPECT_EQ(lost(read(dump())), i);
  }
}

// As vram.record() does, after which the flight recorder begins again.
TEST_F(FlightTest, ASecondOneKeepsTheFilesOfTheFirst) {
  for (int i = 0; i < 3; ++i) {
    start(options({.steps = 10, .max_files = 2}));
    run_steps(0, 3);
    EXPECT_TRUE(std::filesystem::exists(dump()));
    ASSERT_TRUE(Recorder::stop());
  }
  EXPECT_EQ(files(),
            (std::vector<std::string>{"flight.1.request-2.vtrace", "flight.1.request-3.vtrace"}));
}

TEST_F(FlightTest, OtherFilesAreNeitherReplacedNorRemoved) {
  const int status = status_of_work([] {
    std::this_thread::sleep_for(milliseconds(400));
    (void)kill(getpid(), SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  write_text(path("flight.1.killed.vtrace"));
  write_text(path("flight.1.next.vtrace"));
  EXPECT_FALSE(Recorder::start(options()));
  EXPECT_EQ(text_of(path("flight.1.killed.vtrace")), "not a recording");
  EXPECT_EQ(text_of(path("flight.1.next.vtrace")), "not a recording");
  EXPECT_EQ(alive(read(path("flight.1.killed-2.vtrace"))).size(), 3u) << "what the process left";
}

TEST_F(FlightTest, AFileThatWasPutInItsPlaceStays) {
  for (const bool runs_on : {false, true}) {
    start(options());
    std::filesystem::remove(path("flight.1.vtrace"));
    write_text(path("flight.1.vtrace"));
    if (runs_on) {
      run_steps(0, 50);
      EXPECT_TRUE(eventually([] { return !Recorder::is_on(); }));
    }
    EXPECT_EQ(Recorder::stop().has_value(), !runs_on);
    EXPECT_EQ(text_of(path("flight.1.vtrace")), "not a recording");
    std::filesystem::remove(path("flight.1.vtrace"));
    std::filesystem::remove(path("flight.1.next.vtrace"));
  }
}

}  // namespace
}  // namespace vram::record
