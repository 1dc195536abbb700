#include "show/replay/tune.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/text.hpp"
#include "replay/peers/torch_options.hpp"
#include "show/testing/lines.hpp"
#include "show/testing/sample_replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace vram::show {
namespace {

using replay::TuneVerdict;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::unwrapped;

std::vector<TuneReport> sample_tunings() {
  std::vector<TuneReport> reports = {testing::sample_tune(), testing::sample_cannot_fit(),
                                     testing::sample_tune(), testing::sample_cannot_fit()};
  reports[2].result.verdict = TuneVerdict::kRecordedIsBest;
  reports[2].capacity_source = CapacitySource::kRecorded;
  reports[3].result.verdict = TuneVerdict::kNoneCompletes;
  return reports;
}

TEST(TuneText, FitsEveryWidthItAccepts) {
  for (const TuneReport& report : sample_tunings()) {
    for (int columns = 60; columns <= 120; ++columns) {
      std::istringstream text(draw_tune(report, {.columns = columns}));
      for (std::string line; std::getline(text, line);) {
        // A line to be copied stays one.
        EXPECT_TRUE(line.starts_with("  export ") || display_width(line) <= columns) << line;
        EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
      }
    }
  }
}

TEST(TuneText, SaysWhatToExportWhatItGainsAndWhatItCosts) {
  const std::string text = unwrapped(draw_tune(testing::sample_tune()));
  for (const char* expected :
       {"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ",
        "17 GiB at its peak instead of 25 GiB: 8 GiB or 32.0 % less",
        "the recording's own settings (the defaults)", "120 ms in the driver instead of 45.3 ms",
        "no retries, as before", "1 GiB lost to rounding at the peak, as before", "6 replays",
        "expandable segments are out of the question, this reserves 20 GiB",
        "export PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:4", "a_pool (model)",
        "needs PyTorch 2.1 or newer", "(default) ← recorded"}) {
    EXPECT_THAT(text, HasSubstr(expected));
  }
}

// Further settings on top of better ones are noise, and so is a second one of the same tier.
TEST(TuneText, TheTableLeavesOutWhatAddsNothing) {
  const TuneReport report = testing::sample_tune();
  EXPECT_THAT(draw_tune(report), Not(HasSubstr("large_segment_size_mb:64")));
  EXPECT_THAT(draw_tune(report), HasSubstr("1 more were tried"));
  EXPECT_THAT(draw_tune(report, {.top = 0}), HasSubstr("large_segment_size_mb:64"));
}

TEST(TuneText, TheRecordedSettingsAreListedWhateverTheirRank) {
  const std::string text = draw_tune(testing::sample_tune(), {.top = 1});
  EXPECT_THAT(text, HasSubstr("(default)  ← recorded"));
  EXPECT_THAT(text, Not(HasSubstr("max_split_size_mb")));
}

TEST(TuneText, SaysWhenThereIsNothingToGain) {
  TuneReport report = testing::sample_tune();
  report.result.verdict = TuneVerdict::kRecordedIsBest;
  report.result.ranked[0].is_recorded = true;
  report.result.recorded = 0;
  const std::string text = unwrapped(draw_tune(report));
  EXPECT_THAT(text, HasSubstr("Nothing to gain: the recording's own settings "
                              "(expandable_segments:True) reserve 17 GiB"));
  EXPECT_THAT(text, HasSubstr("88.2 % of that, 15 GiB, is what the program itself holds"));
  EXPECT_THAT(text, Not(HasSubstr("export")));
  report.result.recorded = 1;
  EXPECT_THAT(draw_tune(report), HasSubstr("Fewer settings do as well:"));
}

TEST(TuneText, SaysWhatTheRecordedSettingsDoAtACapacity) {
  TuneReport report = testing::sample_tune();
  report.result.ranked[3].result = testing::sample_oom("torch").result;
  EXPECT_THAT(unwrapped(draw_tune(report)),
              HasSubstr("completes with 17 GiB reserved at its peak; with the recording's own "
                        "settings (the defaults) it runs out of memory"));
}

TEST(TuneText, NamesTheLargestHoldersWhereNothingCanHelp) {
  const std::string text = unwrapped(draw_tune(testing::sample_cannot_fit()));
  EXPECT_THAT(text, HasSubstr("No setting and no allocator can help: the program holds 15 GiB at "
                              "once, 3 GiB more than the capacity of 12 GiB"));
  for (const char* holder : {"train.py:10 forward", "train.py:11 forward", "train.py:12 forward"})
    EXPECT_THAT(text, HasSubstr(holder));
  EXPECT_THAT(text, Not(HasSubstr("train.py:13")));
  EXPECT_THAT(text, Not(HasSubstr("SETTINGS")));
}

TEST(TuneText, SaysWhichGetsFarthestWhereNoneCompletes) {
  TuneReport report = testing::sample_cannot_fit();
  report.result.verdict = TuneVerdict::kNoneCompletes;
  const std::string text = unwrapped(draw_tune(report));
  EXPECT_THAT(text, HasSubstr("expandable_segments:True gets farthest, to event 4,711 of 82,567"));
  EXPECT_THAT(text, HasSubstr("--allocator torch:expandable_segments=True --min-capacity"));
}

TEST(TuneText, LinesToExportAreSafeForAShell) {
  EXPECT_EQ(replay::export_line({.name = "torch", .settings = {}}),
            "unset PYTORCH_CUDA_ALLOC_CONF");
  EXPECT_EQ(replay::export_line(
                {.name = "torch", .settings = {{"roundup_power2_divisions", "[256:1,>:4]"}}}),
            "export PYTORCH_CUDA_ALLOC_CONF='roundup_power2_divisions:[256:1,>:4]'");
}

TEST(TuneText, WithoutUnicodeEveryByteIsPrintableAscii) {
  for (const TuneReport& report : sample_tunings()) {
    for (const char c : draw_tune(report, {.unicode = false}))
      EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
    EXPECT_THAT(draw_tune(report, {.unicode = false}), Not(HasSubstr("?")));
  }
}

TEST(TuneText, EscapeCodesOnlyWithColour) {
  EXPECT_THAT(draw_tune(testing::sample_tune()), Not(HasSubstr("\x1b")));
  EXPECT_THAT(draw_tune(testing::sample_tune(), {.colour = true}), HasSubstr("\x1b["));
}

TEST(TuneText, APeakBeforeTheRecordingIsNoBaseForASaving) {
  TuneReport report = testing::sample_tune();
  report.result.verdict = replay::TuneVerdict::kPeakIsBefore;
  report.fidelity.peak_is_before = true;
  report.fidelity.start_reserved_bytes = 25 * kGiB;
  const std::string text = unwrapped(draw_tune(report));
  EXPECT_THAT(text, HasSubstr("What other settings would save is unknown"));
  EXPECT_THAT(text, Not(HasSubstr("export")));
  EXPECT_THAT(text, Not(HasSubstr("SETTINGS")));
}

TEST(TuneText, GainsWithoutProofAreEstimates) {
  TuneReport report = testing::sample_tune();
  EXPECT_THAT(unwrapped(draw_tune(report)), Not(HasSubstr("estimate")));
  report.fidelity.matched_calls = 40;
  const std::string text = unwrapped(draw_tune(report));
  EXPECT_THAT(text, HasSubstr("This may help; set it before the program starts:"));
  EXPECT_THAT(text, HasSubstr("These are estimates: a replay of the recording's own settings "
                              "diverges after call 40 of 102 recorded driver calls"));
}

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
