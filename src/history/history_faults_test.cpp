// The history under what happens to servers: killed at any moment, a disk that is full and then is
// not, questions while it writes.
#include "base/time.hpp"
#include "history/database.hpp"
#include "history/history.hpp"
#include "history/testing/history_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <random>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace vram::history {
namespace {

using testing::Folder;
using ::testing::HasSubstr;
using testing::kDayBegin;
using testing::kHour;
using testing::kMinute;
using testing::opened;
using testing::points_of;
using testing::sample_at;
using testing::used_by;

constexpr const char* kChildsFile = "VRAM_TEST_HISTORY";

struct Sum {
  uint64_t count = 0;
  double total = 0;
};
Sum sum_of(const History& history, int64_t step_ns) {
  Sum sum;
  const auto series = history.query(used_by(step_ns));
  EXPECT_TRUE(series);
  for (const Series& device : series.value_or(std::vector<Series>())) {
    for (const HistoryPoint& point : device.points) {
      sum.count += point.count;
      sum.total += point.average * static_cast<double>(point.count);
    }
  }
  return sum;
}

// Sample i is i seconds after the day began and says that i bytes are used.
watch::Sampled sample_number(uint64_t i) {
  return sample_at(kDayBegin + static_cast<int64_t>(i) * kSignedSecondNs, i);
}

// What the test below kills: adds samples from the first that is not in the file, and writes down
// how many are, after the history said so.
TEST(HistoryChild, DISABLED_WritesUntilItIsKilled) {
  const char* path = std::getenv(kChildsFile);
  if (path == nullptr) GTEST_SKIP();
  History history = opened(path);
  const int progress = open((std::string(path) + ".progress").c_str(), O_RDWR | O_CREAT, 0600);
  for (uint64_t i = sum_of(history, kSignedSecondNs).count;; ++i) {
    history.add(sample_number(i));
    if (i % 7 != 6 || !history.flush()) continue;
    const uint64_t written = i + 1;
    if (pwrite(progress, &written, sizeof written, 0) != sizeof written) _exit(1);
  }
}

pid_t start_child(const std::string& path) {
  std::string filter = "--gtest_filter=HistoryChild.*";
  std::string also = "--gtest_also_run_disabled_tests";
  std::string program = "/proc/self/exe";
  char* const arguments[] = {program.data(), filter.data(), also.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  setenv(kChildsFile, path.c_str(), 1);
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments, environ), 0);
  unsetenv(kChildsFile);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

uint64_t progress_of(const std::string& path) {
  uint64_t written = 0;
  const int file = open((path + ".progress").c_str(), O_RDONLY);
  if (file >= 0) (void)!pread(file, &written, sizeof written, 0);
  if (file >= 0) (void)close(file);
  return written;
}

// Waits until the child got somewhere, so that each one is killed in the middle of its work.
void wait_for_progress(const std::string& path, uint64_t before) {
  for (int i = 0; i < 10'000 && progress_of(path) == before; ++i) usleep(1000);
  EXPECT_GT(progress_of(path), before);
}

TEST(HistoryFaultsTest, WhatWasSaidToBeWrittenSurvivesKill9) {
  const Folder folder;
  const std::string path = folder.file();
  std::mt19937 random(17);
  // Older than a day a second's samples are pruned, by design: a quick machine writes that many.
  constexpr uint64_t kMaxSamples = 60'000;
  for (int round = 0; round < 25 && progress_of(path) < kMaxSamples; ++round) {
    const uint64_t before = progress_of(path);
    const pid_t child = start_child(path);
    wait_for_progress(path, before);
    usleep(static_cast<useconds_t>(random() % 20'000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
    const History history = opened(path);
    const auto samples = points_of(history, used_by(kSignedSecondNs));
    ASSERT_GE(samples.size(), progress_of(path));
    for (size_t i = 0; i < samples.size(); ++i)
      ASSERT_EQ(samples[i].average, static_cast<double>(i)) << "in round " << round;
    for (const int64_t step_ns : {kMinute, kHour}) {
      const Sum sum = sum_of(history, step_ns);
      ASSERT_EQ(sum.count, samples.size());
      const auto last = static_cast<double>(samples.size() - 1);
      ASSERT_NEAR(sum.total, last * (last + 1) / 2, 0.01);
    }
  }
  EXPECT_TRUE(folder.names_with(".broken-").empty());
}

// Files of this process may not grow beyond this for as long as it lives: what a full disk does.
class FullDisk {
 public:
  explicit FullDisk(rlim_t max_bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit = {max_bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

class FullDiskTest : public ::testing::Test {
 protected:
  History open_history(uint64_t unwritten_bytes) {
    HistoryOptions options;
    options.unwritten_bytes = unwritten_bytes;
    options.report = [this](const std::string& text) { messages_.push_back(text); };
    return opened(folder_.file(), options);
  }
  // Until the disk is full, and for `more` minutes after that.
  uint64_t add_until_full(History& history, uint64_t more) {
    const FullDisk full(300'000);
    uint64_t i = 0;
    for (; history.flush(); i += 60)
      for (uint64_t k = 0; k < 60; ++k) add(history, i + k);
    const uint64_t end = i + more * 60;
    for (; i < end; i += 60) {
      for (uint64_t k = 0; k < 60; ++k) add(history, i + k);
      EXPECT_FALSE(history.flush());
    }
    EXPECT_TRUE(history.facts().last_error);
    EXPECT_EQ(messages_.size(), 1u) << "once, not for each attempt";
    EXPECT_EQ(sum_of(history, kSignedSecondNs).count + history.facts().dropped >= end, true);
    return end;
  }

  static void add(History& history, uint64_t i) { history.add(sample_number(i)); }

  Folder folder_;
  std::vector<std::string> messages_;
};

TEST_F(FullDiskTest, WhatCouldNotBeWrittenIsWrittenLater) {
  History history = open_history(uint64_t{4} << 20);
  const uint64_t added = add_until_full(history, 30);
  EXPECT_EQ(history.facts().dropped, 0u);
  ASSERT_TRUE(history.flush());
  EXPECT_EQ(history.facts().last_error, std::nullopt);
  ASSERT_EQ(messages_.size(), 2u);
  EXPECT_THAT(messages_[1], HasSubstr("written again"));
  for (const int64_t step_ns : {kSignedSecondNs, kMinute, kHour})
    EXPECT_EQ(sum_of(history, step_ns).count, added) << step_ns;
}

TEST_F(FullDiskTest, WhatIsTooMuchIsDroppedFromTheOldestAndCounted) {
  History history = open_history(2000);
  const uint64_t added = add_until_full(history, 60);
  ASSERT_TRUE(history.flush());
  const auto points = points_of(history, used_by(kSignedSecondNs));
  const uint64_t dropped = history.facts().dropped;
  EXPECT_GT(dropped, 600u);
  EXPECT_LT(points.size(), added);
  EXPECT_GE(points.size() + dropped, added);
  // The newest ten minutes are all there.
  ASSERT_GT(points.size(), 600u);
  for (size_t i = 1; i <= 600; ++i)
    ASSERT_EQ(points[points.size() - i].average, static_cast<double>(added - i));
}

TEST(HistoryFaultsTest, ItWritesWithoutBeingAsked) {
  const Folder folder;
  HistoryOptions options;
  options.write_period = std::chrono::milliseconds(1);
  History history = opened(folder.file(), options);
  history.add(sample_number(7));
  auto database = Database::open(folder.file(), true);
  ASSERT_TRUE(database) << database.error().message;
  int64_t chunks = 0;
  for (int i = 0; i < 10'000 && chunks == 0; ++i) {
    usleep(1000);
    chunks = database->number("SELECT count(*) FROM device_chunk").value_or(0);
  }
  EXPECT_EQ(chunks, 3) << "of samples, minutes and hours";
}

TEST(HistoryFaultsTest, QuestionsWhileItWritesHaveEachSampleOnce) {
  const Folder folder;
  HistoryOptions options;
  options.write_period = std::chrono::milliseconds(1);
  History history = opened(folder.file(), options);
  constexpr uint64_t kSamples = 4000;
  std::atomic<uint64_t> added{0};
  std::atomic<bool> has_ended{false};
  std::thread asker([&] {
    while (!has_ended) {
      const uint64_t before = added;
      for (const int64_t step_ns : {kSignedSecondNs, kMinute}) {
        const Sum sum = sum_of(history, step_ns);
        EXPECT_GE(sum.count, before) << step_ns;
        EXPECT_LE(sum.count, kSamples) << step_ns;
        const auto count = static_cast<double>(sum.count);
        EXPECT_NEAR(sum.total, (count - 1) * count / 2, 0.01) << step_ns;
      }
    }
  });
  for (uint64_t i = 0; i < kSamples; ++i) {
    history.add(sample_number(i));
    added = i + 1;
    if (i % 10 == 0) usleep(500);
  }
  has_ended = true;
  asker.join();
  EXPECT_EQ(sum_of(history, kSignedSecondNs).count, kSamples);
  EXPECT_EQ(history.facts().unreadable, 0u);
}

}  // namespace
}  // namespace vram::history
