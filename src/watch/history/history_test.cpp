// What goes into the history comes out: by values worked out by hand, across writing, closing and
// opening, at all grains.
#include "watch/history/history.hpp"

#include "watch/testing/history_looks.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

namespace vram::watch {
namespace {

using testing::Folder;
using testing::kDayBegin;
using testing::kHour;
using testing::kMinute;
using testing::kSecond;
using testing::look_at;
using testing::opened;
using testing::points_of;
using testing::process_on;

HistoryQuery used_by(int64_t step_ns) {
  HistoryQuery query;
  query.metric = "used_bytes";
  query.step_ns = step_ns;
  return query;
}

void expect_point(const HistoryPoint& point, int64_t time_ns, double average, double minimum,
                  double maximum, uint64_t count) {
  EXPECT_EQ(point.time_ns, time_ns);
  EXPECT_DOUBLE_EQ(point.average, average);
  EXPECT_EQ(point.minimum, minimum);
  EXPECT_EQ(point.maximum, maximum);
  EXPECT_EQ(point.count, count);
}

class HistoryTest : public ::testing::Test {
 protected:
  Folder folder_;
};

TEST_F(HistoryTest, SamplesComeOutAsTheyWentInWrittenOrNot) {
  History history = opened(folder_.file());
  history.add(look_at(kDayBegin + 1 * kSecond, 40));
  history.add(look_at(kDayBegin + 2 * kSecond, 60));
  for (const bool is_written : {false, true}) {
    if (is_written) {
      ASSERT_TRUE(history.flush());
    }
    const auto points = points_of(history, used_by(0));
    ASSERT_EQ(points.size(), 2u);
    expect_point(points[0], kDayBegin + 1 * kSecond, 40, 40, 40, 1);
    expect_point(points[1], kDayBegin + 2 * kSecond, 60, 60, 60, 1);
  }
}

TEST_F(HistoryTest, StepsHaveAverageMinimumMaximumAndCountAndGapsAreGaps) {
  History history = opened(folder_.file());
  // Three samples in the first ten seconds, none in the second, one in the third.
  history.add(look_at(kDayBegin + 1 * kSecond, 10));
  history.add(look_at(kDayBegin + 5 * kSecond, 90));
  history.add(look_at(kDayBegin + 9 * kSecond, 20));
  history.add(look_at(kDayBegin + 12 * kSecond, std::nullopt));
  history.add(look_at(kDayBegin + 20 * kSecond, 7));
  const auto points = points_of(history, used_by(10 * kSecond));
  ASSERT_EQ(points.size(), 2u);
  expect_point(points[0], kDayBegin, 40, 10, 90, 3);
  expect_point(points[1], kDayBegin + 20 * kSecond, 7, 7, 7, 1);
}

TEST_F(HistoryTest, EachGrainSaysTheSame) {
  History history = opened(folder_.file());
  // Two hours, a sample each 30 s that counts up from 0: 240 of them.
  for (int i = 0; i < 240; ++i)
    history.add(look_at(kDayBegin + i * 30 * kSecond, static_cast<uint64_t>(i)));
  ASSERT_TRUE(history.flush());
  const auto samples = points_of(history, used_by(30 * kSecond));
  ASSERT_EQ(samples.size(), 240u);
  const auto minutes = points_of(history, used_by(kMinute));
  ASSERT_EQ(minutes.size(), 120u);
  expect_point(minutes[7], kDayBegin + 7 * kMinute, 14.5, 14, 15, 2);
  const auto hours = points_of(history, used_by(kHour));
  ASSERT_EQ(hours.size(), 2u);
  expect_point(hours[0], kDayBegin, 59.5, 0, 119, 120);
  expect_point(hours[1], kDayBegin + kHour, 179.5, 120, 239, 120);
}

TEST_F(HistoryTest, AnotherServerGoesOnWhereTheFirstEnded) {
  {
    History history = opened(folder_.file());
    history.add(look_at(kDayBegin + 10 * kSecond, 10));
  }
  History history = opened(folder_.file());
  history.add(look_at(kDayBegin + 20 * kSecond, 30));
  const auto minute = points_of(history, used_by(kMinute));
  ASSERT_EQ(minute.size(), 1u);
  expect_point(minute[0], kDayBegin, 20, 10, 30, 2);
}

TEST_F(HistoryTest, TheFileIsItsOwnersAlone) {
  const History history = opened(folder_.file());
  for (const char* end : {"", "-wal", ".lock"}) {
    struct stat status{};
    ASSERT_EQ(stat((folder_.file() + end).c_str(), &status), 0) << end;
    EXPECT_EQ(status.st_mode & 0777, 0600u) << end;
  }
}

TEST_F(HistoryTest, ProcessesAreFoundByTheirPeaks) {
  History history = opened(folder_.file());
  Sampled first = look_at(kDayBegin, 500);
  first.snapshot.processes = {process_on(0, 11, 5, 100), process_on(0, 12, 6, 300)};
  Sampled second = look_at(kDayBegin + 30 * kSecond, 500);
  second.snapshot.processes = {process_on(0, 11, 5, 200), process_on(0, 12, 6, 0),
                               process_on(0, 13, 7, 50)};
  history.add(first);
  history.add(second);
  ProcessQuery query;
  query.most = 2;
  for (const bool is_written : {false, true}) {
    if (is_written) {
      ASSERT_TRUE(history.flush());
    }
    const auto found = history.processes(query);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->size(), 2u);
    EXPECT_EQ((*found)[0].process.pid, 12u);
    EXPECT_EQ((*found)[0].process.user, "ann");
    EXPECT_EQ((*found)[0].process.command, "python train.py");
    EXPECT_EQ((*found)[0].device.key, "GPU-a");
    expect_point((*found)[0].points.at(0), kDayBegin, 150, 0, 300, 2);
    EXPECT_EQ((*found)[1].process.pid, 11u);
    expect_point((*found)[1].points.at(0), kDayBegin, 150, 100, 200, 2);
  }
}

}  // namespace
}  // namespace vram::watch
