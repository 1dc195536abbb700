#include "show/tune_json.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "show/testing/sample_tune.hpp"

#include <gtest/gtest.h>

namespace vram::show {
namespace {

Json parsed_tune(const TuneReport& report) { return Json::parse(tune_json(report)); }

TEST(TuneJson, CarriesTheAnswerAndEveryCandidate) {
  const Json json = parsed_tune(testing::sample_tune());
  EXPECT_EQ(json["schema"], "vram.tune/1");
  EXPECT_EQ(json["verdict"], "better");
  EXPECT_EQ(json["conf"], "expandable_segments:True");
  EXPECT_EQ(json["replays"], 6);
  EXPECT_EQ(json["peak_live_bytes"], 15 * kGiB);
  EXPECT_TRUE(json["capacity_bytes"].is_null());
  ASSERT_EQ(json["settings"].size(), 5U);
  const Json& second = json["settings"][1];
  EXPECT_EQ(second["rank"], 2);
  EXPECT_EQ(second["tier"], 0);
  EXPECT_EQ(second["conf"], "expandable_segments:True,large_segment_size_mb:64");
  EXPECT_EQ(second["setting_count"], 2);
  EXPECT_EQ(second["notes"].size(), 2U);
  EXPECT_EQ(second["peak_reserved_bytes"], 17 * kGiB);
  EXPECT_EQ(json["recorded"], json["settings"][3]);
  EXPECT_EQ(json["recorded"]["conf"], "");
  EXPECT_EQ(json["recorded"]["is_recorded"], true);
  ASSERT_EQ(json["others"].size(), 1U);
  EXPECT_TRUE(json["others"][0]["conf"].is_null());
  EXPECT_EQ(json["others"][0]["model"], true);
  EXPECT_TRUE(json["holders"].empty());
}

TEST(TuneJson, NamesTheHoldersWhereNothingFits) {
  const Json json = parsed_tune(testing::sample_cannot_fit());
  EXPECT_EQ(json["verdict"], "cannot_fit");
  EXPECT_TRUE(json["conf"].is_null());
  ASSERT_EQ(json["holders"].size(), 3U);
  EXPECT_EQ(json["holders"][0]["name"], "train.py:10 forward");
  EXPECT_EQ(json["settings"][0]["oom"]["event"], 4'711);
}

TEST(TuneJson, EveryVerdictHasAWord) {
  TuneReport report = testing::sample_tune();
  report.result.verdict = replay::TuneVerdict::kRecordedIsBest;
  EXPECT_EQ(parsed_tune(report)["verdict"], "recorded_is_best");
  report.result.verdict = replay::TuneVerdict::kPeakIsBefore;
  EXPECT_EQ(parsed_tune(report)["verdict"], "peak_is_before");
  EXPECT_TRUE(parsed_tune(report)["conf"].is_null());
  report.result.verdict = replay::TuneVerdict::kNoneCompletes;
  EXPECT_EQ(parsed_tune(report)["verdict"], "none_completes");
}

TEST(TuneJson, WithoutAClockThereAreNoTimes) {
  TuneReport report = testing::sample_cannot_fit();
  report.has_time = false;
  const Json json = parsed_tune(report);
  EXPECT_TRUE(json["duration_ns"].is_null());
  EXPECT_TRUE(json["settings"][0]["oom"]["time_ns"].is_null());
}

TEST(TuneJson, EveryByteAndTimeFieldIsAnInteger) {
  vram::testing::expect_integers(parsed_tune(testing::sample_cannot_fit()), "");
}

TEST(TuneJson, EveryFieldIsDocumentedAndEveryDocumentedFieldExists) {
  vram::testing::expect_documented("vram.tune/1", parsed_tune(testing::sample_cannot_fit()),
                                   {{"tune", ""},
                                    {"candidate", "/settings/0"},
                                    {"call", "/settings/0/driver_calls/0"},
                                    {"oom", "/settings/0/oom"},
                                    {"holder", "/holders/0"}});
}

}  // namespace
}  // namespace vram::show
