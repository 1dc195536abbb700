// The flight recorder's signals: each has its file, and then the effect that it has without one.
#include "record/dumps.hpp"
#include "record/recorder.hpp"
#include "record/signal_guard.hpp"
#include "record/testing/flight_fixture.hpp"
#include "record/threads.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

// Sanitizers would make a report and an exit status of a crash.
namespace {
constexpr const char* kCrashesStay =
    "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0";
}  // namespace
extern "C" {
const char* __asan_default_options() { return kCrashesStay; }  // NOLINT: its name
const char* __tsan_default_options() { return kCrashesStay; }  // NOLINT: its name
}

namespace vram::record {
namespace {

using std::chrono::milliseconds;

class FlightSignalsTest : public FlightFixture {};

TEST_F(FlightSignalsTest, ACrashWritesAFileAndIsACrash) {
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

TEST_F(FlightSignalsTest, TerminationWritesAFileAndTerminates) {
  const int status = status_of_work([] { (void)raise(SIGTERM); });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_EQ(alive(read(path("flight.1.sigterm.vtrace"))).size(), 3u);
}

// The flusher, for which the signal's handler waits, needs these locks.
TEST_F(FlightSignalsTest, TerminationOfAThreadWithALockWritesAFileOnceItIsReleased) {
  for (TableLock* const lock : {&Rings::lock(), &stores().texts.lock(), &stores().stacks.lock()}) {
    const int status = status_of_work([&] {
      lock->lock();
      (void)raise(SIGTERM);
      lock->unlock();
    });
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGTERM);
    ASSERT_TRUE(std::filesystem::exists(path("flight.1.sigterm.vtrace")));
    EXPECT_EQ(alive(read(path("flight.1.sigterm.vtrace"))).size(), 3u);
    std::filesystem::remove(path("flight.1.sigterm.vtrace"));
    std::filesystem::remove(path("flight.1.vtrace"));
  }
}

TEST_F(FlightSignalsTest, TheProgramsOwnHandlerOfTerminationRuns) {
  std::signal(SIGTERM, [](int) { _exit(42); });
  const int status = status_of_work([] { (void)raise(SIGTERM); });
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(alive(read(path("flight.1.sigterm.vtrace"))).size(), 3u);
}

void (*handler_before)(int) = nullptr;

// As libraries do, the program's handler calls the one that it replaced.
TEST_F(FlightSignalsTest, AHandlerOfTerminationThatIsInstalledLaterRuns) {
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
TEST_F(FlightSignalsTest, ACrashIsHeldUpForALimitedTime) {
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

TEST_F(FlightSignalsTest, ASignalRequestsAFileAndTheProgramContinues) {
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

// The system ends a process at a fault, whatever it ignores.
TEST_F(FlightSignalsTest, ACrashThatIsIgnoredIsACrash) {
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

TEST_F(FlightSignalsTest, AfterItsEndTheChosenSignalHasTheEffectThatItHadBefore) {
  const auto signal_after_end = [] {
    DumpSignals::set_enabled(false);
    (void)Recorder::stop();
    (void)raise(SIGUSR2);
  };
  const int without_handler = status_of_work(signal_after_end);
  EXPECT_TRUE(WIFSIGNALED(without_handler)) << without_handler;
  EXPECT_EQ(WTERMSIG(without_handler), SIGUSR2);
  std::signal(SIGUSR2, [](int) { _exit(42); });
  const int with_handler = status_of_work(signal_after_end);
  std::signal(SIGUSR2, SIG_DFL);
  EXPECT_TRUE(WIFEXITED(with_handler));
  EXPECT_EQ(WEXITSTATUS(with_handler), 42);
}

TEST_F(FlightSignalsTest, WhileItRestsTheChosenSignalHasNoEffect) {
  const int status = status_of_work([] {
    DumpSignals::rest();
    (void)Recorder::stop();
    (void)raise(SIGUSR2);
    _exit(7);
  });
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
}

// Its default action, which is none, was taken in between.
TEST_F(FlightSignalsTest, AChosenSignalRequestsAFileAgainAfterAnEnd) {
  const int status = status_of_work([&] {
    DumpSignals::install(SIGURG);
    DumpSignals::set_enabled(false);
    (void)Recorder::stop();
    (void)raise(SIGURG);
    if (!Recorder::start(options())) _exit(92);
    DumpSignals::install(SIGURG);
    DumpSignals::set_enabled(true);
    (void)raise(SIGURG);
    (void)Recorder::stop();
    _exit(7);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(files(), std::vector<std::string>{"flight.1.signal.vtrace"});
}

TEST_F(FlightSignalsTest, AnotherSignalMayBeChosenLater) {
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
