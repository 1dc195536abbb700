// Ranks read together: figures of three small reports, worked out by hand.
#include "explain/ranks/ranks.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace vram::explain {
namespace {

using Peaks = std::vector<std::pair<std::string, uint64_t>>;

// Categories and steps are all that tells the reports apart.
Report report_of(std::optional<uint64_t> rank, const Peaks& categories, const Peaks& steps,
                 uint64_t reserved) {
  Report report;
  report.path = "run.vtrace";
  report.process = {.rank = rank, .world_size = 3, .host = "node1"};
  DeviceReport& device = report.devices.emplace_back();
  Breakdown by_category{Dimension::kCategory, {}};
  Breakdown by_site{Dimension::kUserFrame, {}};
  for (const auto& [name, bytes] : categories) {
    device.peak.requested.totals.requested_bytes += bytes;
    by_category.holders.push_back({.name = name, .requested_bytes = bytes, .stack = {}});
    by_site.holders.push_back({.name = "x · " + name, .requested_bytes = bytes, .stack = {}});
  }
  device.at_peak.breakdowns = {by_category, by_site};
  device.peak.reserved.totals.reserved_bytes = reserved;
  for (const auto& [name, bytes] : steps)
    device.steps.steps.push_back({.name = name, .peak_requested_bytes = bytes});
  return report;
}

std::vector<Report> three() {
  return {report_of(2, {{"parameter", 100}, {"activation", 900}, {"temporary", 7}},
                    {{"step 0", 500}, {"step 1", 1007}, {"step 2", 600}}, 2000),
          report_of(0, {{"parameter", 100}, {"activation", 300}}, {{"step 0", 400}}, 1000),
          report_of(1, {{"parameter", 120}, {"activation", 400}},
                    {{"step 0", 520}, {"step 1", 510}}, 1500)};
}

TEST(Ranks, TheWorstIsHeldAgainstTheMedian) {
  const RankReport found = compare_ranks(three());
  ASSERT_EQ(found.ranks.size(), 3u);
  EXPECT_EQ(found.ranks[0].rank, 0u);
  EXPECT_EQ(found.ranks[2].peak_requested_bytes, 1007u);
  EXPECT_EQ(found.world_size, 3u);
  EXPECT_EQ(found.worst, 2u);
  EXPECT_EQ(found.worst_by, RankMeasure::kReserved);
  EXPECT_EQ(found.median, 1u);
  ASSERT_TRUE(found.category && found.site && found.step);
  EXPECT_EQ(found.category->name, "activation");
  EXPECT_EQ(found.category->worst_bytes, 900u);
  EXPECT_EQ(found.category->median_bytes, 400u);
  EXPECT_EQ(found.site->name, "x · activation");
  EXPECT_EQ(found.step->name, "step 1") << "step 2 is of the worst rank alone";
  EXPECT_EQ(found.step->more_bytes(), 497u);
}

// Files of one folder, a second each, that say no ranks.
std::vector<Report> unranked(const std::vector<std::string>& paths) {
  std::vector<Report> reports;
  for (const std::string& path : paths) {
    Report& report = reports.emplace_back();
    report.path = path;
    DeviceReport& device = report.devices.emplace_back();
    device.events = 1000;
    device.begin_unix_ns = 7'000'000'000;
    device.duration_ns = 1'000'000'000;
    device.peak.requested.totals.requested_bytes = 100;
  }
  return reports;
}

TEST(OneProgram, IsToldByWhatTheRecordingsSay) {
  EXPECT_TRUE(is_one_program(three()));
  std::vector<Report> reports = three();
  reports[1].process.rank = 2;
  EXPECT_FALSE(is_one_program(reports)) << "two of them are rank 2";
  reports = three();
  reports[1].process.world_size = 8;
  reports[1].path = "other.vtrace";
  EXPECT_FALSE(is_one_program(reports));
  EXPECT_FALSE(is_one_program({three()[0]}));
}

TEST(OneProgram, WithoutRanksByNamesTimesAndSizes) {
  const std::vector<std::string> paths = {"a/w9.pickle", "b/w10.pickle"};
  EXPECT_TRUE(is_one_program(unranked(paths)));
  EXPECT_FALSE(is_one_program(unranked({"unet.pickle", "leak.pickle"})));
  const auto is_one_after = [&](auto change) {
    std::vector<Report> reports = unranked(paths);
    change(reports[1]);
    return is_one_program(reports);
  };
  EXPECT_TRUE(is_one_after([](Report& r) { r.devices[0].begin_unix_ns += 1'000'000'000; }));
  EXPECT_FALSE(is_one_after([](Report& r) { r.devices[0].begin_unix_ns += 1'000'000'001; }));
  EXPECT_FALSE(is_one_after([](Report& r) { r.clock = Clock::kEventIndex; }));
  EXPECT_TRUE(is_one_after([](Report& r) { r.devices[0].events = 500; }));
  EXPECT_FALSE(is_one_after([](Report& r) { r.devices[0].events = 499; }));
  EXPECT_FALSE(
      is_one_after([](Report& r) { r.devices[0].peak.requested.totals.requested_bytes = 202; }));
}

TEST(Ranks, StepsAreLinedUpByName) {
  const RankReport found = compare_ranks(three());
  ASSERT_EQ(found.steps.size(), 2u) << "one rank alone has step 2";
  using Row = std::vector<std::optional<uint64_t>>;
  EXPECT_EQ(found.steps[0].peak_bytes, (Row{400, 520, 500}));
  EXPECT_EQ(found.steps[0].worst, 1u);
  EXPECT_EQ(found.steps[1].peak_bytes, (Row{std::nullopt, 510, 1007}));
  EXPECT_EQ(found.steps[1].worst, 2u);
}

TEST(Ranks, StepsOfOneNameAreLinedUpByTheirOrder) {
  Peaks even;
  Peaks uneven;
  for (int i = 0; i < 6; ++i) {
    even.emplace_back("train_step", 120);
    uneven.emplace_back("train_step", i == 2 ? 1020 : 150);
  }
  const RankReport found = compare_ranks({report_of(0, {{"activation", 120}}, even, 1000),
                                          report_of(1, {{"activation", 1020}}, uneven, 2000)});
  ASSERT_EQ(found.steps.size(), 6U);
  using Row = std::vector<std::optional<uint64_t>>;
  EXPECT_EQ(found.steps[0].name, "train_step");
  EXPECT_EQ(found.steps[0].peak_bytes, (Row{120, 150}));
  EXPECT_EQ(found.steps[2].name, "train_step, 3");
  EXPECT_EQ(found.steps[2].peak_bytes, (Row{120, 1020}));
  ASSERT_TRUE(found.step);
  EXPECT_EQ(found.step->name, "train_step, 3");
  EXPECT_EQ(found.step->more_bytes(), 900U);
}

TEST(Ranks, HeadroomCountsWhereAllDevicesAreKnown) {
  std::vector<Report> reports = three();
  for (Report& report : reports) report.devices[0].memory_bytes = 4000;
  reports[1].devices[0].memory_bytes = 1200;  // rank 0: a smaller device
  const RankReport found = compare_ranks(reports);
  EXPECT_EQ(found.worst, 0u);
  EXPECT_EQ(found.worst_by, RankMeasure::kHeadroom);
  EXPECT_EQ(found.ranks[0].headroom_bytes, 200u);
  EXPECT_FALSE(found.category) << "rank 0 holds less of everything than the median";
}

TEST(Ranks, RanksThatAreAlikeHaveNoWorst) {
  const Peaks same = {{"parameter", 100}};
  const RankReport found =
      compare_ranks({report_of(0, same, {}, 1000), report_of(1, same, {}, 1000)});
  EXPECT_EQ(found.worst_by, RankMeasure::kNone);
  EXPECT_FALSE(found.category || found.site || found.step);
}

TEST(Ranks, OnesThatSayNoRankGetFreeNumbers) {
  const Peaks same = {{"parameter", 100}};
  const RankReport found = compare_ranks(
      {report_of(std::nullopt, same, {}, 1), report_of(0, same, {}, 2), report_of(0, same, {}, 3)});
  EXPECT_EQ(found.ranks[0].peak_reserved_bytes, 2u);
  EXPECT_EQ(found.ranks[1].peak_reserved_bytes, 1u);
  EXPECT_EQ(found.ranks[2].rank, 2u);
}

}  // namespace
}  // namespace vram::explain
