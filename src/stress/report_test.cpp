// Verdicts, incidents, samples and comparisons, by values worked out by hand.
#include "stress/report.hpp"

#include "stress/samples.hpp"

#include <gtest/gtest.h>

namespace vram::stress {
namespace {

watch::Device device_with(uint64_t corrected, uint64_t uncorrected) {
  watch::Device device;
  device.health.ecc_since_boot = {corrected, uncorrected};
  return device;
}

TEST(Incidents, ErrorsAreWhatGrewWhileItRan) {
  Health health{.before = device_with(5, 0), .after = device_with(5, 0)};
  EXPECT_TRUE(incidents(health).empty());
  health.after = device_with(7, 0);
  ASSERT_EQ(incidents(health).size(), 1u);
  EXPECT_EQ(incidents(health)[0].text, "corrected memory errors (ECC): 2 more (now 7)");
  EXPECT_FALSE(incidents(health)[0].is_error);
  health.after->xids = {{79, 1, 0}};
  health.after->health.ecc_since_boot.uncorrected = 1;
  ASSERT_EQ(incidents(health).size(), 3u);
  EXPECT_TRUE(incidents(health)[0].is_error);
  EXPECT_EQ(incidents(health)[2].text, "Xid 79: 1 more (now 1)");
  health.before->xids = health.after->xids;
  EXPECT_EQ(incidents(health).size(), 2u);
  health.before->health.ecc_since_boot = {};
  EXPECT_TRUE(incidents(health).empty()) << "unknown is not zero";
}

TEST(Incidents, RemappedRows) {
  Health health{.before = device_with(0, 0), .after = device_with(0, 0)};
  health.after->health.remapped_rows = {{.corrected = 1, .uncorrected = 0, .is_pending = true}};
  ASSERT_EQ(incidents(health).size(), 1u) << "how many there were before is unknown";
  health.before->health.remapped_rows.emplace();
  EXPECT_EQ(incidents(health).size(), 2u);
  health.after->health.remapped_rows->has_failed = true;
  EXPECT_EQ(incidents(health).size(), 3u);
}

TEST(Incidents, RetiredPages) {
  Health health{.before = device_with(0, 0), .after = device_with(0, 0)};
  health.after->health.retired_pages.emplace().corrected = 2;
  EXPECT_TRUE(incidents(health).empty()) << "how many there were before is unknown";
  health.before->health.retired_pages.emplace().corrected = 1;
  health.before->health.retired_pages->uncorrected = 4;
  ASSERT_EQ(incidents(health).size(), 1u);
  EXPECT_EQ(incidents(health)[0].text, "pages retired after corrected errors: 1 more (now 2)");
  EXPECT_FALSE(incidents(health)[0].is_error);
  health.after->health.retired_pages->uncorrected = 5;
  health.after->health.retired_pages->is_pending = true;
  ASSERT_EQ(incidents(health).size(), 3u);
  EXPECT_TRUE(incidents(health)[1].is_error);
}

TEST(StressReportVerdict, ErrorsWeighMost) {
  StressReport report;
  EXPECT_EQ(report.verdict(), Verdict::kUntested);
  report.fill.compared_bytes = 1;
  EXPECT_EQ(report.verdict(), Verdict::kPassed);
  report.was_cut_short = true;
  EXPECT_EQ(report.verdict(), Verdict::kCutShort);
  report.bad.count = 1;
  EXPECT_EQ(report.verdict(), Verdict::kErrors);
  report.bad.count = 0;
  report.storm.invalid = "two blocks overlap";
  EXPECT_EQ(report.verdict(), Verdict::kErrors);
  report.storm.invalid.reset();
  report.failures.push_back({"cuMemCreate", "CUDA_ERROR_UNKNOWN (999)", "fill"});
  EXPECT_EQ(report.verdict(), Verdict::kErrors);
}

TEST(Samples, OrderedFigures) {
  Samples samples;
  for (const uint64_t value : std::initializer_list<uint64_t>{9, 1, 8, 2, 7, 3, 6, 4, 5, 100})
    samples.add(value);
  const Figure figure = samples.figure("x", 4096, Unit::kNanoseconds);
  EXPECT_EQ(figure.count, 10u);
  EXPECT_EQ(figure.low, 1u);
  EXPECT_EQ(figure.quarter, 3u);
  EXPECT_EQ(figure.median, 5u);
  EXPECT_EQ(figure.three_quarters, 8u);
  EXPECT_EQ(figure.p99, 100u);
  EXPECT_EQ(figure.high, 100u);
  EXPECT_EQ(figure.first_power, 0u);
  // 1 | 2 3 | 4 to 7 | 8 9 | - | - | 64 to 127
  EXPECT_EQ(figure.histogram, (std::vector<uint64_t>{1, 2, 4, 2, 0, 0, 1}));
}

TEST(Samples, ManyAreKeptInPart) {
  Samples samples;
  for (uint64_t i = 1; i <= 100'000; ++i) samples.add(i);
  const Figure figure = samples.figure("x", 0, Unit::kNanoseconds);
  EXPECT_EQ(figure.count, 100'000u);
  EXPECT_EQ(figure.low, 1u);
  EXPECT_EQ(figure.high, 100'000u);
  EXPECT_NEAR(static_cast<double>(figure.median), 50'000, 5'000);
  EXPECT_EQ(Samples().figure("x", 0, Unit::kNanoseconds).count, 0u);
}

TEST(Samples, Speeds) {
  EXPECT_EQ(bytes_per_second(1 << 20, 1'000'000), uint64_t{1000} << 20);
  EXPECT_EQ(bytes_per_second(5, 0), 0u);
  EXPECT_EQ(share_figure("x", 3, 4).median, 750'000u);
}

TEST(Extremes, HighestAndLowestOfAllLooks) {
  Extremes extremes;
  watch::Device device;
  widen(extremes, device);
  EXPECT_FALSE(extremes.celsius);
  device.sample.celsius = 70;
  device.sample.core_mhz = 1500;
  device.sample.throttle_reasons = {"power cap"};
  widen(extremes, device);
  device.sample.celsius = 60;
  device.sample.core_mhz = 1200;
  device.sample.throttle_reasons = {"power cap", "thermal"};
  widen(extremes, device);
  EXPECT_EQ(extremes.sample_count, 3u);
  EXPECT_EQ(extremes.celsius, 70u);
  EXPECT_EQ(extremes.lowest_core_mhz, 1200u);
  EXPECT_EQ(extremes.throttle_reasons, (std::vector<std::string>{"power cap", "thermal"}));
}

TEST(DeviceMonitor, LooksBeforeAndAfter) {
  uint32_t sample_count = 0;
  DeviceMonitor monitor([&] {
    watch::Device device;
    device.sample.celsius = 40 + ++sample_count;
    return device;
  });
  const Health health = monitor.finish();
  ASSERT_TRUE(health.before && health.after);
  EXPECT_EQ(health.before->sample.celsius, 41u);
  EXPECT_EQ(health.after->sample.celsius, 40 + sample_count);
  EXPECT_EQ(health.extremes.celsius, 40 + sample_count);
}

Figure figure_of(std::string name, Unit unit, uint64_t quarter, uint64_t median, uint64_t third) {
  Figure figure{.name = std::move(name), .size_bytes = 4096, .unit = unit, .count = 9};
  figure.quarter = quarter;
  figure.median = median;
  figure.three_quarters = third;
  return figure;
}

StressReport report_with(std::vector<Figure> figures) {
  StressReport report;
  report.device.uuid = "GPU-1";
  report.figures = std::move(figures);
  return report;
}

TEST(Compare, WorseIsSlowerOrLonger) {
  const auto before = report_with({figure_of("copy", Unit::kBytesPerSecond, 1000, 1000, 1000),
                                   figure_of("call", Unit::kNanoseconds, 100, 100, 100),
                                   figure_of("gone", Unit::kNanoseconds, 1, 1, 1)});
  const auto after = report_with({figure_of("copy", Unit::kBytesPerSecond, 800, 800, 800),
                                  figure_of("call", Unit::kNanoseconds, 95, 95, 95)});
  const auto found = compare(before, after, 0.1);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->changes.size(), 2u);
  EXPECT_EQ(found->changes[0].name, "copy");
  EXPECT_DOUBLE_EQ(found->changes[0].worse, 0.2);
  EXPECT_EQ(found->changes[0].trend, Trend::kFailing);
  EXPECT_DOUBLE_EQ(found->changes[1].worse, -0.05);
  EXPECT_EQ(found->changes[1].trend, Trend::kBetter);
  EXPECT_EQ(found->not_measured, std::vector<std::string>{"gone"});
  EXPECT_TRUE(found->is_failing());
  EXPECT_FALSE(compare(before, after, 0.25).value().is_failing());
  EXPECT_EQ(compare(before, after, 0.25).value().changes[0].trend, Trend::kWorse);
}

TEST(Compare, WhatScattersIsNoChange) {
  // Spans of 30 % and 40 %: 50 % together.
  const auto before = report_with({figure_of("call", Unit::kNanoseconds, 90, 100, 120)});
  const auto same = report_with({figure_of("call", Unit::kNanoseconds, 120, 145, 178)});
  EXPECT_EQ(compare(before, same, 0.1).value().changes[0].trend, Trend::kSame);
  const auto worse = report_with({figure_of("call", Unit::kNanoseconds, 140, 160, 204)});
  const Comparison found = compare(before, worse, 0.1).value();
  EXPECT_NEAR(found.changes[0].noise, 0.5, 1e-9);
  EXPECT_EQ(found.changes[0].trend, Trend::kFailing);
}

TEST(Compare, OtherDevicesAreRefused) {
  StressReport before = report_with({});
  StressReport after = report_with({});
  before.device.uuid = "GPU-2";
  EXPECT_FALSE(compare(before, after, 0.1));
  before.device.uuid.reset();
  after.device.uuid.reset();
  EXPECT_FALSE(compare(before, after, 0.1)) << "unknown is not the same";
}

}  // namespace
}  // namespace vram::stress
