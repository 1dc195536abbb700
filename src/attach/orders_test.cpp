// Attach, detach, die: in every order, 200 times. Whatever ends first, and however, the process
// that continues has no probe left, and every file can be read.
#include "attach/attached_recording.hpp"
#include "attach/testing/stand_in.hpp"
#include "trace/open.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace vram::attach {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kTimes = 200;

// `vram record` as a process of its own.
class RecorderProcess {
 public:
  RecorderProcess(const StandIn& target, std::string path) : path_(std::move(path)) {
    if (pipe2(stop_.data(), O_CLOEXEC) != 0 || pipe2(ready_.data(), O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) run(target);
    (void)::close(ready_[1]);
  }
  RecorderProcess(const RecorderProcess&) = delete;
  RecorderProcess& operator=(const RecorderProcess&) = delete;
  ~RecorderProcess() {
    for (const int end : {stop_[0], stop_[1], ready_[0]}) (void)::close(end);
    std::filesystem::remove(path_);
  }

  // Returns at once when it has ended, or was waited for.
  void wait_until_attached() const {
    char byte = 0;
    (void)!::read(ready_[0], &byte, 1);
  }
  void stop() const { (void)!::write(stop_[1], "x", 1); }
  void kill() const { (void)::kill(pid_, SIGKILL); }
  // The exit code; -1: it was killed.
  [[nodiscard]] int wait() const {
    int status = 0;
    (void)waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Events in the file; nothing if there is none, or its header was not written yet.
  [[nodiscard]] std::optional<size_t> events() const {
    if (!std::filesystem::exists(path_) || std::filesystem::file_size(path_) == 0)
      return std::nullopt;
    return trace::open_trace(path_).value().events.size();
  }

 private:
  [[noreturn]] void run(const StandIn& target) const {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto recording = AttachedRecording::create(
        {.pid = target.pid(), .path = path_, .stop_descriptor = stop_[0]});
    (void)::close(ready_[1]);
    if (!recording) _exit(2);
    _exit((*recording)->run() ? 0 : 3);
  }

  std::string path_;
  std::array<int, 2> stop_{};
  std::array<int, 2> ready_{};
  pid_t pid_ = -1;
};

enum class Order : uint8_t {
  kStop,
  kKillRecorder,
  kKillTarget,
  kKillTargetThenRecorder,
  kKillRecorderThenTarget,
  kTwoRecorders,
  kExec,
  kFork,
  kCount
};

class OrdersTest : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string kWhyNot = why_no_attaching();
    if (!kWhyNot.empty()) GTEST_SKIP() << kWhyNot;
  }
  [[nodiscard]] static std::string path(int number) {
    return std::filesystem::temp_directory_path() /
           fmt::format("vram-orders-{}-{}.vtrace", getpid(), number);
  }
  // The kernel removes the probes of a killed process shortly after its end.
  static void expect_no_probe_in(const StandIn& target) {
    const auto deadline = steady_clock::now() + std::chrono::seconds(10);
    while (target.semaphores() + target.changed_instructions() != 0 &&
           steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(target.semaphores(), 0);
    EXPECT_EQ(target.changed_instructions(), 0);
  }
  static void expect_work(StandIn& target) {
    target.end_work();
    const uint64_t before = target.allocations();
    target.work(10);
    EXPECT_GE(target.allocations(), before + 10);
  }
  void pause() { std::this_thread::sleep_for(std::chrono::microseconds(random_() % 12'000)); }
  void end(Order order, StandIn& target, const RecorderProcess& recorder);
  void end_both(Order order, StandIn& target, const RecorderProcess& recorder);

  std::mt19937 random_{20};
};

void OrdersTest::end_both(Order order, StandIn& target, const RecorderProcess& recorder) {
  if (order == Order::kKillRecorderThenTarget) recorder.kill();
  target.kill();
  if (order == Order::kKillTargetThenRecorder) recorder.kill();
  const int code = recorder.wait();
  if (order == Order::kKillTarget) {
    EXPECT_TRUE(code == 0 || code == 2) << code;
  }
}

void OrdersTest::end(Order order, StandIn& target, const RecorderProcess& recorder) {
  switch (order) {
    case Order::kKillTarget:
    case Order::kKillTargetThenRecorder:
    case Order::kKillRecorderThenTarget:
      return end_both(order, target, recorder);
    case Order::kKillRecorder:
      recorder.kill();
      EXPECT_EQ(recorder.wait(), -1);
      break;
    case Order::kExec:
      target.exec();
      recorder.wait_until_attached();
      EXPECT_LE(recorder.wait(), 2);
      return;  // it is another program
    case Order::kTwoRecorders: {
      const RecorderProcess second(target, path(-1));
      pause();
      second.kill();
      EXPECT_EQ(second.wait(), -1);
      (void)second.events();
      recorder.wait_until_attached();
      EXPECT_GT(target.semaphores(), 0);  // the first continues
      recorder.stop();
      EXPECT_EQ(recorder.wait(), 0);
      break;
    }
    case Order::kFork:
      target.end_work();
      target.fork_child();
      [[fallthrough]];
    default:
      recorder.stop();
      EXPECT_EQ(recorder.wait(), 0);
  }
  expect_no_probe_in(target);
  expect_work(target);
}

TEST_F(OrdersTest, NothingIsLeftBehindInAnyOrder) {
  std::array<size_t, static_cast<size_t>(Order::kCount)> files{};
  for (int i = 0; i < kTimes; ++i) {
    const auto order = static_cast<Order>(i % static_cast<int>(Order::kCount));
    SCOPED_TRACE(fmt::format("time {}, order {}", i, static_cast<int>(order)));
    StandIn target;
    target.begin_work();
    const RecorderProcess recorder(target, path(i));
    // Half of the ends come at any moment, also while the probes are being attached.
    if (i / static_cast<int>(Order::kCount) % 2 == 0) recorder.wait_until_attached();
    pause();
    end(order, target, recorder);
    if (recorder.events()) ++files[static_cast<size_t>(order)];
    if (HasFailure()) return;
  }
  for (const size_t count : files) EXPECT_GT(count, 0u);
}

}  // namespace
}  // namespace vram::attach
