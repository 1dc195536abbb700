// The flight recorder: what a dump holds, when one is written, and what remains.
// size: one class of tests, whose children and files they share
#include "base/testing/waiting.hpp"
#include "record/recorder.hpp"
#include "record/testing/recorder_fixture.hpp"
#include "record/threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
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

constexpr uint64_t kBase = uint64_t{1} << 20;

class FlightTest : public RecorderFixture {
 protected:
  [[nodiscard]] RecorderOptions options(const FlightOptions& flight = {.steps = 10}) const {
    return {.path = path("flight.1.vtrace"), .flight = flight};
  }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  // A step takes a block that stays for `life` steps.
  static void run_steps(uint64_t first, uint64_t end, uint64_t life = 3) {
    for (uint64_t step = first; step < end; ++step) {
      Recorder::step();
      alloc(kBase + step * 512, 100 + step);
      if (step >= life) free(kBase + (step - life) * 512);
    }
  }
  static std::string dump() {
    const auto done = Recorder::dump(milliseconds(20'000));
    EXPECT_TRUE(done) << done.error().message;
    return done.value_or("");
  }
  // The blocks that are alive at the end, by address.
  static std::map<uint64_t, uint64_t> alive(const trace::Trace& trace) {
    std::map<uint64_t, uint64_t> blocks;
    for (const trace::Event& event : trace.events_of(trace.devices[0])) {
      if (event.kind == EventKind::kAlloc) blocks[event.address] = event.size_bytes;
      if (event.kind == EventKind::kFreeCompleted) {
        EXPECT_EQ(blocks.count(event.address), 1u) << "freed, but never there";
        blocks.erase(event.address);
      }
    }
    return blocks;
  }
  static std::string first_step(const trace::Trace& trace) {
    return std::string(trace.tables.strings[trace.annotations.at(0).name]);
  }
  static inline int stores_used_ = 0;
  // In a child that runs `work` after it has started a flight recorder, and its status.
  template <typename Work>
  int status_of_work(const Work& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (!Recorder::start(options())) _exit(90);
      DumpSignals::install(SIGUSR2);
      DumpSignals::set_enabled(true);
      run_steps(0, 5);
      work();
      _exit(91);
    }
    return vram::status_of_child(child);
  }
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
  while (stores().texts.intern("text " + std::to_string(stores_used_++)) != 0) continue;
  ASSERT_TRUE(Recorder::stop());
  EXPECT_NE(stores().texts.intern("text " + std::to_string(stores_used_)), 0u);
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

TEST_F(FlightTest, ACrashWritesAFileAndIsACrash) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS}) {
    const int status = status_of_work([&] {
      const rlimit none{0, 0};
      (void)setrlimit(RLIMIT_CORE, &none);
      if (signal == SIGABRT) std::abort();
      if (signal == SIGBUS) (void)raise(SIGBUS);
      *static_cast<volatile int*>(nullptr) = 1;
    });
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_EQ(alive(read(path("flight.1.crash.vtrace"))).size(), 3u);
    std::filesystem::remove(path("flight.1.crash.vtrace"));
  }
}

TEST_F(FlightTest, TerminationWritesAFileAndTerminates) {
  const int status = status_of_work([] { (void)raise(SIGTERM); });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_EQ(alive(read(path("flight.1.sigterm.vtrace"))).size(), 3u);
}

TEST_F(FlightTest, TheProgramsOwnHandlerOfTerminationRuns) {
  std::signal(SIGTERM, [](int) { _exit(42); });
  const int status = status_of_work([] { (void)raise(SIGTERM); });
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(alive(read(path("flight.1.sigterm.vtrace"))).size(), 3u);
}

void (*handler_before)(int) = nullptr;

// As libraries do, the program's handler calls the one that it replaced.
TEST_F(FlightTest, AHandlerOfTerminationThatIsInstalledLaterRuns) {
  for (const bool calls_it : {false, true}) {
    const int status = status_of_work([&] {
      handler_before = std::signal(SIGTERM, [](int) { _exit(42); });
      if (calls_it) std::signal(SIGTERM, [](int signal) { handler_before(signal); });
      std::this_thread::sleep_for(milliseconds(500));
      (void)raise(SIGTERM);
    });
    EXPECT_TRUE(calls_it ? WIFSIGNALED(status) : WEXITSTATUS(status) == 42) << status;
    EXPECT_EQ(alive(read(path("flight.1.sigterm.vtrace"))).size(), 3u);
    std::filesystem::remove(path("flight.1.sigterm.vtrace"));
  }
}

// As one that has crashed in malloc, which the thread that writes needs.
TEST_F(FlightTest, ACrashIsHeldUpForALimitedTime) {
  const auto begin = std::chrono::steady_clock::now();
  const int status = status_of_work([&] {
    const rlimit none{0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    std::this_thread::sleep_for(milliseconds(400));
    Rings::lock().lock();
    *static_cast<volatile int*>(nullptr) = 1;
  });
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, DumpSignals::kMaxWait);
  EXPECT_FALSE(std::filesystem::exists(path("flight.1.crash.vtrace")));
  EXPECT_EQ(alive(read(path("flight.1.vtrace"))).size(), 3u);
}

TEST_F(FlightTest, ASignalRequestsAFileAndTheProgramContinues) {
  const int status = status_of_work([&] {
    (void)raise(SIGUSR2);
    for (int i = 0; i < 500 && access(path("flight.1.signal.vtrace").c_str(), F_OK) != 0; ++i)
      std::this_thread::sleep_for(milliseconds(10));
    (void)Recorder::stop();
    _exit(7);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(files(), std::vector<std::string>{"flight.1.signal.vtrace"});
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

// As on a full disk: the window fits, a dump does not.
TEST_F(FlightTest, ADumpThatFailsLeavesNothingAndEndsNothing) {
  start(options());
  run_steps(0, 5);
  (void)dump();
  std::filesystem::create_directory(path("flight.1.request-2.vtrace"));  // where the next one goes
  const auto failed = Recorder::dump(milliseconds(20'000));
  EXPECT_FALSE(failed);
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

void write_text(const std::string& path) { std::ofstream(path) << "not a recording"; }
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
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
  EXPECT_EQ(alive(read(path("flight.1.vtrace"))).size(), 3u) << "what the process left";
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

// The system ends a process at a fault, whatever it ignores.
TEST_F(FlightTest, ACrashThatIsIgnoredIsACrash) {
  std::signal(SIGSEGV, SIG_IGN);
  const int status = status_of_work([] {
    const rlimit none{0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)alarm(10);
    *static_cast<volatile int*>(nullptr) = 1;
  });
  std::signal(SIGSEGV, SIG_DFL);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_EQ(alive(read(path("flight.1.crash.vtrace"))).size(), 3u);
}

TEST_F(FlightTest, AnotherSignalMayBeChosenLater) {
  const int status = status_of_work([&] {
    DumpSignals::install(SIGUSR1);
    (void)raise(SIGUSR1);
    (void)Recorder::stop();
    _exit(7);
  });
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(files(), std::vector<std::string>{"flight.1.signal.vtrace"});
}

}  // namespace
}  // namespace vram::record
