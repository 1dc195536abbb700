// What goes into the history comes out: by values worked out by hand, across writing, closing and
// opening, at all grains.
#include "history/history.hpp"

#include "base/time.hpp"
#include "history/database.hpp"
#include "history/testing/history_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <sys/stat.h>

namespace vram::history {
namespace {

using testing::Folder;
using ::testing::HasSubstr;
using testing::kDayBegin;
using testing::kHour;
using testing::kMinute;
using testing::opened;
using testing::points_of;
using testing::process_on;
using testing::sample_at;
using testing::used_by;

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
  history.add(sample_at(kDayBegin + 1 * kSignedSecondNs, 40));
  history.add(sample_at(kDayBegin + 2 * kSignedSecondNs, 60));
  for (const bool is_written : {false, true}) {
    if (is_written) {
      ASSERT_TRUE(history.flush());
    }
    const auto points = points_of(history, used_by(0));
    ASSERT_EQ(points.size(), 2u);
    expect_point(points[0], kDayBegin + 1 * kSignedSecondNs, 40, 40, 40, 1);
    expect_point(points[1], kDayBegin + 2 * kSignedSecondNs, 60, 60, 60, 1);
  }
}

TEST_F(HistoryTest, StepsHaveAverageMinimumMaximumAndCountAndGapsAreGaps) {
  History history = opened(folder_.file());
  // Three samples in the first ten seconds, none in the second, one in the third.
  history.add(sample_at(kDayBegin + 1 * kSignedSecondNs, 10));
  history.add(sample_at(kDayBegin + 5 * kSignedSecondNs, 90));
  history.add(sample_at(kDayBegin + 9 * kSignedSecondNs, 20));
  history.add(sample_at(kDayBegin + 12 * kSignedSecondNs, std::nullopt));
  history.add(sample_at(kDayBegin + 20 * kSignedSecondNs, 7));
  const auto points = points_of(history, used_by(10 * kSignedSecondNs));
  ASSERT_EQ(points.size(), 2u);
  expect_point(points[0], kDayBegin, 40, 10, 90, 3);
  expect_point(points[1], kDayBegin + 20 * kSignedSecondNs, 7, 7, 7, 1);
}

TEST_F(HistoryTest, EachGrainSaysTheSame) {
  History history = opened(folder_.file());
  // Two hours, a sample each 30 s that counts up from 0: 240 of them.
  for (int i = 0; i < 240; ++i)
    history.add(sample_at(kDayBegin + i * 30 * kSignedSecondNs, static_cast<uint64_t>(i)));
  ASSERT_TRUE(history.flush());
  const auto samples = points_of(history, used_by(30 * kSignedSecondNs));
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
    history.add(sample_at(kDayBegin + 10 * kSignedSecondNs, 10));
  }
  History history = opened(folder_.file());
  history.add(sample_at(kDayBegin + 20 * kSignedSecondNs, 30));
  const auto minute = points_of(history, used_by(kMinute));
  ASSERT_EQ(minute.size(), 1u);
  expect_point(minute[0], kDayBegin, 20, 10, 30, 2);
}

TEST_F(HistoryTest, TextsAreKeptForAnotherServer) {
  {
    History history = opened(folder_.file());
    EXPECT_EQ(history.kept("a"), "");
    history.keep({{"a", "one"}, {"b", "two"}}, std::chrono::seconds(60));
    history.keep({{"a", "three"}}, {});
    EXPECT_EQ(history.kept("a"), "") << "of a server before this one";
  }
  const History history = opened(folder_.file());
  EXPECT_EQ(history.kept("a"), "three");
  EXPECT_EQ(history.kept("b"), "two");
}

// What a kill -9 would find.
// Another one is begun, and has what the first one had.
TEST_F(HistoryTest, TextsOutliveTheirFile) {
  {
    History history = opened(folder_.file());
    history.keep({{"alerts", "a"}}, std::chrono::seconds(60));
  }
  {
    History history = opened(folder_.file());
    std::filesystem::remove(folder_.file());
    ASSERT_TRUE(history.flush());
  }
  EXPECT_EQ(opened(folder_.file()).kept("alerts"), "a");
}

TEST_F(HistoryTest, WhatWasWaitedForIsInTheFile) {
  HistoryOptions options;
  options.write_period = std::chrono::hours(1);
  History history = opened(folder_.file(), options);
  history.keep({{"a", "one"}}, std::chrono::seconds(60));
  for (const char* end : {"", "-wal"})
    std::filesystem::copy_file(folder_.file() + end, folder_.file("copy.db") + end);
  EXPECT_EQ(opened(folder_.file("copy.db")).kept("a"), "one");
}

TEST_F(HistoryTest, AFileOfAnEarlierVersionLearnsToKeep) {
  {
    const History history = opened(folder_.file());
  }
  ASSERT_TRUE(Database::open(folder_.file(), false).value().execute("DROP TABLE kept"));
  History history = opened(folder_.file());
  history.keep({{"a", "one"}}, {});
  EXPECT_TRUE(history.flush());
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
  watch::Sampled first = sample_at(kDayBegin, 500);
  first.snapshot.processes = {process_on(0, 11, 5, 100), process_on(0, 12, 6, 300)};
  watch::Sampled second = sample_at(kDayBegin + 30 * kSignedSecondNs, 500);
  second.snapshot.processes = {process_on(0, 11, 5, 200), process_on(0, 12, 6, 0),
                               process_on(0, 13, 7, 50)};
  history.add(first);
  history.add(second);
  ProcessQuery query;
  query.limit = 2;
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

// Any figures at any times with any gaps, of two devices, added up here the plain way.
TEST_F(HistoryTest, AnyStepOfAnyGrainIsTheSumOfItsSamples) {
  std::mt19937 random(23);
  struct Sample {
    int64_t time_ns;
    uint64_t value;
  };
  std::map<std::string, std::vector<Sample>> samples;
  {
    History history = opened(folder_.file());
    int64_t time_ns = kDayBegin;
    for (int i = 0; i < 6000; ++i) {
      const bool is_gap = random() % 100 == 0;
      time_ns += int64_t{1'000'000} * (is_gap ? random() % 900'000 : 1 + random() % 2000);
      const std::string device = random() % 2 == 0 ? "GPU-a" : "GPU-b";
      const std::optional<uint64_t> value =
          random() % 10 == 0 ? std::nullopt : std::optional<uint64_t>(random());
      history.add(sample_at(time_ns, value, device));
      if (value) samples[device].push_back({time_ns, *value});
      if (random() % 1000 != 0) continue;
      ASSERT_TRUE(history.flush()) << "written now and then";
    }
  }
  const History history = opened(folder_.file());
  for (const int64_t step_ns :
       {kSignedSecondNs, 7 * kSignedSecondNs, kMinute, 3 * kMinute, kHour, 5 * kHour}) {
    for (const auto& [device, all] : samples) {
      std::map<int64_t, HistoryPoint> expected;
      for (const Sample& sample : all) {
        const auto value = static_cast<double>(sample.value);
        const int64_t begin_ns = sample.time_ns / step_ns * step_ns;
        auto& point = expected.try_emplace(begin_ns, begin_ns, 0, value, value, 0).first->second;
        point.average += value;
        point.minimum = std::min(point.minimum, value);
        point.maximum = std::max(point.maximum, value);
        ++point.count;
      }
      HistoryQuery query = used_by(step_ns);
      query.device = device;
      const auto points = points_of(history, query);
      ASSERT_EQ(points.size(), expected.size()) << step_ns;
      for (const HistoryPoint& point : points) {
        const HistoryPoint& other = expected.at(point.time_ns);
        const double average = other.average / static_cast<double>(other.count);
        ASSERT_NEAR(point.average, average, average * 1e-12);
        ASSERT_EQ(point.minimum, other.minimum);
        ASSERT_EQ(point.maximum, other.maximum);
        ASSERT_EQ(point.count, other.count);
      }
    }
  }
}

TEST_F(HistoryTest, WhatIsAskedForIsAllThatIsAnswered) {
  History history = opened(folder_.file());
  for (int i = 0; i < 10; ++i) history.add(sample_at(kDayBegin + i * kSignedSecondNs, 5));
  HistoryQuery query = used_by(0);
  query.from_ns = kDayBegin + 3 * kSignedSecondNs;
  query.to_ns = kDayBegin + 5 * kSignedSecondNs;
  const auto points = points_of(history, query);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].time_ns, query.from_ns);
}

TEST_F(HistoryTest, UnknownNamesAreErrorsThatSaySo) {
  History history = opened(folder_.file());
  history.add(sample_at(kDayBegin, 5));
  HistoryQuery query;
  query.metric = "free_lunch";
  EXPECT_THAT(history.query(query).error().message, HasSubstr("'free_lunch'"));
  query = used_by(0);
  query.device = "GPU-z";
  EXPECT_THAT(history.query(query).error().message, HasSubstr("'GPU-z'"));
}

TEST_F(HistoryTest, EachMetricHasItsOwnFigures) {
  History history = opened(folder_.file());
  watch::Sampled sampled = sample_at(kDayBegin, 1);
  watch::Device& device = sampled.snapshot.devices[0];
  gpu::DeviceSample& sample = device.sample;
  sample.memory.reserved_bytes = 2;
  sample.memory.free_bytes = 3;
  device.unattributed_bytes = -4;
  sample.busy_percent = 5;
  sample.memory_busy_percent = 6;
  sample.celsius = 7;
  sample.milliwatts = 8;
  sample.core_mhz = 9;
  sample.memory_mhz = 10;
  sample.processes.emplace(12);  // one process is on two MIG instances
  for (uint32_t i = 0; i < 12; ++i) (*sample.processes)[i].pid = std::max(i, 1U);
  sample.host_memory.used_bytes = 12;
  device.pcie_sent_bytes_per_second = 13;
  device.pcie_received_bytes_per_second = 14;
  history.add(sampled);
  double expected = 0;
  for (const Metric& metric : metrics()) {
    ++expected;
    HistoryQuery query;
    query.metric = metric.name;
    const auto points = points_of(history, query);
    ASSERT_EQ(points.size(), 1u) << metric.name;
    EXPECT_EQ(points[0].average, metric.name == "unattributed_bytes" ? -4 : expected)
        << metric.name;
  }
  EXPECT_EQ(expected, 14);
}

TEST_F(HistoryTest, PartsOfADeviceAreDevicesOnce) {
  History history = opened(folder_.file());
  watch::Sampled sampled = sample_at(kDayBegin, 500);
  gpu::MigInstance instance;
  instance.gpu_instance = 2;
  instance.profile = "3g.71gb";
  instance.memory.used_bytes = 70;
  gpu::MigInstance sharing = instance;
  sharing.compute_instance = 1;
  sampled.snapshot.devices[0].health.mig_instances = {instance, sharing};
  history.add(sampled);
  const auto devices = history.devices().value();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].key, "GPU-a");
  EXPECT_EQ(devices[1].key, "GPU-a/mig-2");
  EXPECT_EQ(devices[1].name, "3g.71gb");
  HistoryQuery query = used_by(0);
  query.device = "GPU-a/mig-2";
  const auto points = points_of(history, query);
  ASSERT_EQ(points.size(), 1u);
  expect_point(points[0], kDayBegin, 70, 70, 70, 1);
}

TEST_F(HistoryTest, ADeviceThatDoesNotTellHasAGapAndKeepsItsTotal) {
  History history = opened(folder_.file());
  history.add(sample_at(kDayBegin, 5));
  watch::Sampled silent = sample_at(kDayBegin + kSignedSecondNs, std::nullopt);
  silent.snapshot.devices[0].sample.memory.total_bytes.reset();
  history.add(silent);
  EXPECT_EQ(points_of(history, used_by(0)).size(), 1u);
  EXPECT_EQ(history.devices().value().at(0).total_bytes, 1000u);
}

TEST_F(HistoryTest, BytesInTheFileThatAreNoChunkAreLeftOutAndCounted) {
  History history = opened(folder_.file());
  history.add(sample_at(kDayBegin, 5));
  history.add(sample_at(kDayBegin + kMinute, 6));
  ASSERT_TRUE(history.flush());
  auto database = Database::open(folder_.file(), false);
  ASSERT_TRUE(database) << database.error().message;
  ASSERT_TRUE(database->execute(
      fmt::format("UPDATE device_chunk SET samples=x'ff01' WHERE grain_s=0 AND begin_s={}",
                  kDayBegin / kSignedSecondNs)));
  const auto points = points_of(history, used_by(0));
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].average, 6);
  EXPECT_EQ(history.facts().unreadable, 1u);
}

TEST_F(HistoryTest, FactsSayWhatThereIs) {
  History history = opened(folder_.file());
  EXPECT_EQ(history.facts().oldest_ns, std::nullopt);
  history.add(sample_at(kDayBegin, 5));
  history.add(sample_at(kDayBegin + kMinute, 6));
  const HistoryFacts facts = history.facts();
  EXPECT_EQ(facts.oldest_ns, kDayBegin);
  EXPECT_EQ(facts.newest_ns, kDayBegin + kMinute);
  EXPECT_EQ(facts.added, 2u);
  EXPECT_EQ(facts.dropped, 0u);
  EXPECT_GT(facts.file_bytes, 4096u);
  EXPECT_EQ(facts.last_error, std::nullopt);
}

TEST_F(HistoryTest, ProcessesThatAreGoneAndTheirLastMinuteAreKept) {
  {
    History history = opened(folder_.file());
    for (int i = 0; i < 10; ++i) {
      watch::Sampled sampled = sample_at(kDayBegin + i * kMinute, 500);
      if (i < 3) sampled.snapshot.processes = {process_on(0, 11, 5, 100)};
      history.add(sampled);
    }
  }
  const History history = opened(folder_.file());
  const auto found = history.processes({});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].process.start_ticks, 5u);
  EXPECT_EQ((*found)[0].points.size(), 3u);
}

}  // namespace
}  // namespace vram::history
