// Reports of memory tests, by one that was made by hand.
#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "show/doctor/stress_json.hpp"
#include "show/doctor/stress_text.hpp"

#include <gtest/gtest.h>

namespace vram::show {
namespace {

using stress::Figure;
using stress::StressReport;
using stress::Unit;

Figure figure(std::string name, Unit unit, uint64_t median) {
  Figure made{.name = std::move(name), .size_bytes = 2 * kMiB, .unit = unit, .count = 4};
  made.low = made.quarter = median - 1;
  made.median = median;
  made.three_quarters = made.p99 = made.high = median + 1;
  made.first_power = 3;
  made.histogram = {1, 2, 1};
  return made;
}

StressReport sample_stress_report() {
  StressReport report;
  report.time_ns = 1'795'000'000'000'000'000;
  report.host = "node1";
  report.device = {.index = 3,
                   .name = "H200",
                   .uuid = "GPU-1",
                   .pci_id = "0000:19:00.0",
                   .driver = "580.1",
                   .total_bytes = 140 * kGiB};
  report.others = {{4711, "alice", "python\x1b[31m train.py", 12 * kGiB}};
  report.requested_ns = report.duration_ns = 60'000'000'000;
  report.seed = 9;
  report.leave_bytes = 2 * kGiB;
  report.fill.free_bytes = 128 * kGiB;
  report.fill.obtained_bytes = 96 * kGiB;
  report.fill.compared_bytes = kGiB;
  report.fill.passes = {{.pattern = "0xAA", .written_bytes = kGiB, .is_complete = true}};
  report.storm.allocations = 1234;
  report.storm.peak_requested_bytes = 3 * kGiB;
  report.storm.peak_reserved_bytes = 4 * kGiB;
  report.figures = {figure("cuMemCreate", Unit::kNanoseconds, 6'700),
                    figure("device to device", Unit::kBytesPerSecond, 3 * kGiB)};
  report.bad.count = 2;
  report.bad.by_bit[63] = 2;
  report.bad.first = {{.address = 0x7f00'0000'1238,
                       .handle = 0x5010,
                       .offset_bytes = 0x1238,
                       .pattern = "0x00",
                       .expected = 0,
                       .found = 0x8000'0000'0000'0000}};
  report.failures = {{"cuMemMap", "CUDA_ERROR_UNKNOWN (999)", "storm"}};
  watch::Device device;
  device.sample.celsius = 41;
  report.health.before = report.health.after = device;
  report.health.after->xids = {{48, 1, 0}};
  report.health.after->health.ecc_since_boot.corrected = 7;
  report.health.extremes.celsius = 78;
  return report;
}

StressReport earlier() {
  StressReport report = sample_stress_report();
  report.figures = {figure("cuMemCreate", Unit::kNanoseconds, 6'000)};
  return report;
}

TEST(StressJson, IsAsDocumented) {
  const auto comparison = stress::compare(earlier(), sample_stress_report(), 0.1).value();
  const auto json = Json::parse(stress_json(sample_stress_report(), comparison));
  vram::testing::expect_documented("vram.stress/1", json,
                                   {{"stress", ""},
                                    {"device", "/device"},
                                    {"other", "/others/0"},
                                    {"fill", "/fill"},
                                    {"pass", "/fill/passes/0"},
                                    {"storm", "/storm"},
                                    {"figure", "/figures/0"},
                                    {"bad_words", "/bad_words"},
                                    {"bad_word", "/bad_words/first/0"},
                                    {"failure", "/failures/0"},
                                    {"health", "/health"},
                                    {"moment", "/health/before"},
                                    {"incident", "/health/incidents/0"},
                                    {"comparison", "/comparison"},
                                    {"change", "/comparison/changes/0"}});
  vram::testing::expect_integers(json, "");
  EXPECT_EQ(json["verdict"], "errors");
  EXPECT_EQ(json["bad_words"]["first"][0]["bits"], "0x8000000000000000");
  EXPECT_EQ(json["bad_words"]["by_bit"][63], 2);
  EXPECT_EQ(json["comparison"]["changes"][0]["trend"], "failing");  // 6.7 against 6.0 us
  EXPECT_EQ(json["health"]["before"]["ecc_corrected"], nullptr) << "unknown is not zero";
}

TEST(StressJson, ComesBackAsFarAsComparingNeeds) {
  const auto read = read_stress_json(stress_json(sample_stress_report(), std::nullopt));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->device.uuid, "GPU-1");
  EXPECT_EQ(read->time_ns, sample_stress_report().time_ns);
  const auto comparison = stress::compare(*read, sample_stress_report(), 0.1);
  ASSERT_TRUE(comparison) << comparison.error().message;
  ASSERT_EQ(comparison->changes.size(), 2u);
  for (const stress::Change& change : comparison->changes) {
    EXPECT_EQ(change.before, change.after);
    EXPECT_EQ(change.trend, stress::Trend::kSame);
  }
}

TEST(StressJson, WhatIsNoReportIsRefused) {
  const std::string whole = stress_json(sample_stress_report(), std::nullopt);
  const auto with = [&](const std::string& old, const std::string& text) {
    std::string changed = whole;
    changed.replace(changed.find(old), old.size(), text);
    return changed;
  };
  for (const std::string& text :
       {std::string(), std::string("[]"), whole.substr(0, whole.size() / 2),
        with("vram.stress/1", "vram.stress/2"), with("\"figures\": [", "\"figures\": [7, "),
        with("\"median\": 6700", "\"median\": -1"), with("\"median\": 6700", "\"median\": 1"),
        with("\"unit\": \"nanoseconds\"", "\"unit\": \"miles\"")}) {
    const auto read = read_stress_json(text);
    ASSERT_FALSE(read) << text.substr(0, 40);
    EXPECT_NE(read.error().message.find("expected a report"), std::string::npos);
  }
}

TEST(StressText, SaysWhatMatters) {
  const std::string text = draw_stress(
      sample_stress_report(), stress::compare(earlier(), sample_stress_report(), 0.1).value());
  for (const char* part : {"ERRORS FOUND", "GPU 3  H200", "pid 4711 alice", "0x7f0000001238",
                           "0x5010", "8000000000000000", "cuMemMap", "CUDA_ERROR_UNKNOWN (999)",
                           "75.0 %", "Xid 48: 1 more", "41 C -> 78 C -> 41 C", "corrected - -> 7",
                           "6.7 us", "3 GiB/s", "+11.7 %", "worse by > 10 %"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "a process chooses its own command line";
}

TEST(StressText, APassIsSaidAndNothingElse) {
  StressReport report = sample_stress_report();
  report.bad = {};
  report.failures.clear();
  report.health.after->xids.reset();
  const std::string text = draw_stress(report, std::nullopt);
  EXPECT_NE(text.find("PASSED"), std::string::npos);
  EXPECT_EQ(text.find("Bad words"), std::string::npos);
  EXPECT_EQ(text.find("failed"), std::string::npos);
  report.was_cut_short = true;
  EXPECT_NE(draw_stress(report, std::nullopt).find("CUT SHORT"), std::string::npos);
}

}  // namespace
}  // namespace vram::show
