// What a recording is to the process around it: its signals, its limits, its forks, and the files
// of other processes.
#include "record/process.hpp"

#include "base/file.hpp"
#include "base/testing/forked_copy.hpp"
#include "base/testing/waiting.hpp"
#include "record/stacks/native_stack.hpp"
#include "record/testing/recorder_fixture.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

namespace vram::record {
namespace {

class ProcessTest : public RecorderFixture {
 protected:
  // Runs `work` in a forked child; its exit code, or minus the signal that ended it.
  template <typename Work>
  static int in_child(const Work& work) {
    const pid_t child = fork();
    if (child == 0) _exit(work());
    const int status = status_of_child(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.insert(entry.path().filename());
    return names;
  }
};

std::string fact(const trace::Trace& trace, std::string_view key) {
  for (const auto& [name, value] : trace.about)
    if (name == key) return std::string(value);
  return "";
}

// The masks of blocked signals of this process's threads, but for the calling one.
std::vector<uint64_t> masks_of_other_threads() {
  std::vector<uint64_t> masks;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(getpid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("SigBlk:")) masks.push_back(std::stoull(line.substr(7), nullptr, 16));
  }
  return masks;
}

TEST_F(ProcessTest, ItsThreadTakesNoSignalsOfTheProgram) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has a thread of its own";
#endif
  const auto before = masks_of_other_threads().size();
  start({.path = path()});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it begins with all blocked
  const auto masks = masks_of_other_threads();
  ASSERT_EQ(masks.size(), before + 1);
  for (const int signal : {SIGTERM, SIGINT, SIGALRM, SIGUSR1, SIGCHLD, SIGXFSZ, SIGPIPE, SIGPROF})
    EXPECT_NE(masks.back() >> (signal - 1) & 1U, 0u) << strsignal(signal);
  EXPECT_EQ(masks.back() >> (SIGSEGV - 1) & 1U, 0u) << "a crash in it is the program's to report";
}

// As a user who may have no more threads: root may always.
int record_without_threads(const std::string& path, bool is_lazy) {
  const rlimit none{0, 0};
  if (geteuid() == 0 &&
      (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
    return 3;
  if (setrlimit(RLIMIT_NPROC, &none) != 0) return 4;
  const auto started = Recorder::start({.path = path, .is_lazy = is_lazy});
  if (started.has_value() != is_lazy) return 5;
  for (uint64_t i = 0; i < 1000; ++i) Recorder::emit({.address = i << 12, .op = Op::kAlloc});
  if (is_lazy && (Recorder::is_on() || Recorder::counts().lost_records != 1)) return 6;
  const auto stopped = Recorder::stop();
  return stopped.has_value() != is_lazy ? 0 : 7;
}

TEST_F(ProcessTest, AProcessThatMayHaveNoMoreThreadsRunsOnUnrecorded) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer wants a thread of its own";
#endif
  std::filesystem::permissions(folder_, std::filesystem::perms::all);
  EXPECT_EQ(in_child([&] { return record_without_threads(path("now.vtrace"), false); }), 0);
  EXPECT_EQ(in_child([&] { return record_without_threads(path("lazy.vtrace"), true); }), 0);
}

// Other threads name scopes and take stacks while this one forks; the children do so, too.
TEST_F(ProcessTest, AForkAmidOtherThreadsWorkLeavesTheChildWhole) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer starts no threads in the child of a program that has some";
#endif
  start({.path = path(), .stacks = Stacks::kNative, .is_lazy = true});
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !is_over; ++i) {
        Recorder::scope_begin("scope " + std::to_string(t) + "." + std::to_string(i % 5000));
        Recorder::emit({.address = 0x1000, .stack = Recorder::capture_stack(), .op = Op::kFree});
        Recorder::scope_end();
      }
    });
  }
  const int rounds = std::getenv("VRAM_DEEP") != nullptr ? 2000 : 200;
  for (int round = 0; round < rounds; ++round) {
    ASSERT_EQ(in_child([&] {
                (void)alarm(20);
                for (int i = 0; i < 50; ++i) {
                  Recorder::scope_begin("child " + std::to_string(i));
                  Recorder::emit({.address = 0x1000,
                                  .size_bytes = 1,
                                  .stack = Recorder::capture_stack(),
                                  .scope = ScopeStack::current(),
                                  .op = Op::kAlloc});
                  Recorder::scope_end();
                }
                return Recorder::stop() ? 0 : 1;
              }),
              0)
        << "round " << round;
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ProcessTest, AChildsFileSaysItsOwnNumber) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer starts no threads in the child of a program that has some";
#endif
  start({.path = path(), .is_lazy = true, .facts = facts_of_process()});
  alloc(0x1000);
  Recorder::about("torch.version", "2.13");
  const pid_t child = fork();
  if (child == 0) {
    alloc(0x2000);
    _exit(Recorder::stop() ? 0 : 1);
  }
  EXPECT_EQ(status_of_child(child), 0);
  ASSERT_TRUE(Recorder::stop());
  for (const std::string& name : files()) {
    const trace::Trace trace = read(path(name));
    const pid_t pid = trace.events[0].address == 0x2000 ? child : getpid();
    EXPECT_EQ(fact(trace, "process.pid"), std::to_string(pid)) << name;
    EXPECT_EQ(fact(trace, "torch.version"), "2.13") << name;
    EXPECT_NE(fact(trace, "process.pid_namespace"), "");
    EXPECT_NE(fact(trace, "process.start_ticks"), "");
    EXPECT_NE(fact(trace, "host.boot"), "");
  }
}

TEST_F(ProcessTest, AChildDoesNotHoldItsParentsFileOpen) {
  start({.path = path()});
  alloc(0x1000);
  EXPECT_EQ(in_child([&] {
              for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
                std::error_code error;
                if (std::filesystem::read_symlink(entry, error) == path()) return 1;
              }
              return 0;
            }),
            0);
}

// One that another thread has just forked has not closed it yet.
TEST_F(ProcessTest, AFileIsFreeWhenItsRecordingEndsThoughACopyOfTheProcessLives) {
  start({.path = path()});
  alloc(0x1000);
  const ForkedCopy copy;
  ASSERT_TRUE(Recorder::stop());
  start({.path = path()});
  alloc(0x2000);
  ASSERT_TRUE(Recorder::stop());
  ASSERT_EQ(read(path()).events.size(), 1u);
  EXPECT_EQ(read(path()).events[0].address, 0x2000u);
}

// Another container's process of the same number has a file in the shared folder.
TEST_F(ProcessTest, AFileOfAnotherProcessOfTheSameNumberIsKept) {
  const std::string own = "run." + std::to_string(getpid()) + ".vtrace";
  for (const std::string& name : {std::string("run.vtrace"), own})
    std::ofstream(path(name)) << name;
  start({.path = path(), .is_lazy = true});
  alloc(0x1000);
  ASSERT_TRUE(Recorder::stop());
  EXPECT_EQ(std::filesystem::file_size(path(own)), own.size());
  const std::string second = "run." + std::to_string(getpid()) + "-2.vtrace";
  ASSERT_TRUE(std::filesystem::exists(path(second)));
  EXPECT_EQ(read(path(second)).events.size(), 1u);
}

// vram.record("run.vtrace") replaces a recording, but not one that is being written.
TEST_F(ProcessTest, OfTwoRecordersOfOnePathTheSecondGetsAnError) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer starts no threads in the child of a program that has some";
#endif
  std::ofstream(path()) << kVtraceStart << "of a process that was killed";
  start({.path = path()});
  alloc(0x1000);
  for (const Replace replace : {Replace::kOwn, Replace::kAny}) {
    EXPECT_EQ(in_child([&] {
                const auto started = Recorder::start({.path = path(), .replace = replace});
                return !started &&
                               started.error().message.find("is being written") != std::string::npos
                           ? 0
                           : 1;
              }),
              0);
  }
  ASSERT_TRUE(Recorder::stop());
  ASSERT_EQ(read(path()).events.size(), 1u);
  EXPECT_EQ(read(path()).events[0].address, 0x1000u);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ProcessTest, AFileThatVramDidNotWriteIsReplacedOnlyWhenAskedFor) {
  std::ofstream(path("weights.pt")) << "weights";
  const auto refused = Recorder::start({.path = path("weights.pt")});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("weights.pt was not written by vram"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(Recorder::is_on());
  EXPECT_EQ(std::filesystem::file_size(path("weights.pt")), 7u);
  EXPECT_EQ(files().size(), 1u) << "nothing is left beside it";
  start({.path = path("weights.pt"), .replace = Replace::kAny});
  alloc(0x1000);
  ASSERT_TRUE(Recorder::stop());
  EXPECT_EQ(read(path("weights.pt")).events.size(), 1u);
}

// The older part of a recording with a limit takes a name that the user did not give.
TEST_F(ProcessTest, WhatLiesWhereTheOlderPartGoesStays) {
  std::ofstream(path("run.old.vtrace")) << "mine";
  const auto refused = Recorder::start({.path = path(), .limit_bytes = 1 << 20});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("run.old.vtrace was not written by vram"),
            std::string::npos)
      << refused.error().message;
  EXPECT_EQ(files().size(), 1u);
  ASSERT_EQ(std::filesystem::remove(path("run.old.vtrace")), true);
  start({.path = path(), .limit_bytes = 1 << 20});
  std::ofstream(path("run.old.vtrace")) << "mine";  // while it is recorded
  EXPECT_TRUE(eventually([&] {
    for (uint64_t i = 0; i < 10'000; ++i) alloc(i * 2654435761u, i);
    return !Recorder::is_on();
  }));
  const auto stopped = Recorder::stop();
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message.find("run.old.vtrace was not written by vram"),
            std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(path("run.old.vtrace")), 4u);
  EXPECT_GT(read(path()).events.size(), 1000u) << "what fitted is there";
}

TEST_F(ProcessTest, ALinkStaysAndTheFileBehindItIsWritten) {
  std::filesystem::create_directory(folder_ / "disk");
  std::filesystem::create_symlink("disk/run.vtrace", path("link.vtrace"));
  for (int round = 0; round < 2; ++round) {  // where there is nothing, and where there is
    start({.path = path("link.vtrace")});
    alloc(0x1000);
    ASSERT_TRUE(Recorder::stop());
    EXPECT_TRUE(std::filesystem::is_symlink(path("link.vtrace")));
    EXPECT_EQ(read(path("disk/run.vtrace")).events.size(), 1u);
  }
}

TEST_F(ProcessTest, APipeAndADeviceAreWrittenInPlace) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const auto unread = Recorder::start({.path = path("pipe")});
  ASSERT_FALSE(unread);
  EXPECT_NE(unread.error().message.find("no process reads this pipe"), std::string::npos);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  start({.path = path("pipe")});
  alloc(0x1000);
  ASSERT_TRUE(Recorder::stop());
  std::string bytes(1 << 16, '\0');
  const ssize_t size = ::read(reader, bytes.data(), bytes.size());
  (void)close(reader);
  ASSERT_GT(size, 0);
  std::ofstream(path("copy.vtrace"), std::ios::binary)
      << bytes.substr(0, static_cast<size_t>(size));
  EXPECT_EQ(read(path("copy.vtrace")).events.size(), 1u);
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));

  const auto limited = Recorder::start({.path = "/dev/null", .limit_bytes = 1 << 20});
  ASSERT_FALSE(limited);
  EXPECT_NE(limited.error().message.find("cannot have a size limit"), std::string::npos);
  start({.path = "/dev/null", .is_lazy = true});
  alloc(0x1000);
  ASSERT_TRUE(Recorder::stop());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(Recorder::counts().events, 1u);
}

// Between the renaming of a part and the making of the next, the name is never free to be taken.
TEST_F(ProcessTest, ARecordingKeepsItsNameWhenItBeginsAnew) {
  start({.path = path(), .limit_bytes = 1 << 20, .is_lazy = true});
  alloc(0x1000);
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path()); }));
  std::atomic<bool> is_over{false};
  std::atomic<int> taken{0};
  std::thread thief([&] {
    while (!is_over) {
      const int file = ::open(path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      if (file < 0) continue;
      ++taken;
      (void)close(file);
    }
  });
  for (uint64_t i = 1; i < 600'000; ++i) {
    alloc((i * 2654435761u % 100'000) << 20, i % 100'000);
    free((i * 2654435761u % 100'000) << 20);
    if ((2 * i) % kHalfOfARing == 0) wait_for_flusher();
  }
  is_over = true;
  thief.join();
  const auto stopped = Recorder::stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
  EXPECT_EQ(taken, 0);
  EXPECT_TRUE(std::filesystem::exists(path("run.old.vtrace")));
}

}  // namespace
}  // namespace vram::record
