#include "show/replay/replay_text.hpp"

#include "base/text.hpp"
#include "show/replay/replay_parts.hpp"
#include "show/testing/lines.hpp"
#include "show/testing/sample_replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::show {
namespace {

using ::testing::HasSubstr;
using testing::line_with;
using testing::lines_of;
using ::testing::Not;
using testing::unwrapped;

ReplayReport rich_report() {
  ReplayReport report = testing::sample_replays();
  report.results[1] = testing::sample_oom(
      "torch:garbage_collection_threshold=0.8,max_split_size_mb=128,roundup_power2_divisions=8");
  report.searched_min_capacity = true;
  report.truncated_at_byte = 123'456;
  report.ring_overflowed = true;
  return report;
}

TEST(ReplayText, FitsEveryWidthItAccepts) {
  for (int columns = 60; columns <= 120; ++columns) {
    for (const std::string& line : lines_of(draw_replay(rich_report(), {.columns = columns}))) {
      EXPECT_LE(display_width(line), columns) << line;
      EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
    }
  }
}

TEST(ReplayText, SaysEachThingOfOneReplay) {
  const std::string text = unwrapped(draw_replay(testing::sample_replay()));
  for (const char* expected :
       {"runs/unet.pickle.xz", "41,000 requests replayed on a device without limit",
        "the recording's own settings", "exact", "✔ completes", "25 GiB", "16 GiB", "15.5 GiB",
        "15 GiB", "60.0 %", "90 cudaMalloc (44.1 ms), 12 cudaFree (1.2 ms)", "about 45.3 ms",
        "memory taken 90 times, given back 12 times; no retries", "peak reserved 25 GiB",
        "█ requested"}) {
    EXPECT_THAT(text, HasSubstr(expected));
  }
  EXPECT_THAT(text, Not(HasSubstr("COMPARISON")));
  EXPECT_THAT(text, Not(HasSubstr("stream")));
  EXPECT_THAT(text, Not(HasSubstr("fits in")));
}

TEST(ReplayText, SaysWhatAModelWasCheckedAgainst) {
  const std::string text = unwrapped(draw_replay(testing::sample_replays()));
  EXPECT_THAT(text, HasSubstr("a model: checked against peaks measured on one GPU"));
  EXPECT_THAT(text, HasSubstr("7 waits of one stream for another"));
}

TEST(ReplayText, TheBestFiguresAreMarkedAndNoOthers) {
  const std::string text = draw_replay(testing::sample_replays());
  const std::string own = line_with(text, " 1  torch ");
  const std::string expandable = line_with(text, " 2  torch:exp");
  const std::string model = line_with(text, " 3  cuda_async (model)");
  EXPECT_THAT(expandable, HasSubstr("* 17 GiB"));
  EXPECT_THAT(expandable, HasSubstr("* 88.2 %"));
  EXPECT_THAT(expandable, Not(HasSubstr("* 120 ms")));
  EXPECT_THAT(own, HasSubstr("* 45.3 ms"));
  EXPECT_THAT(model, HasSubstr("* 45.3 ms"));
  EXPECT_THAT(own, Not(HasSubstr("* 25 GiB")));
  for (const std::string& line : {own, expandable, model})  // the same everywhere: nothing is best
    EXPECT_THAT(line, Not(HasSubstr("* 0")));
}

TEST(ReplayText, WhatRanOutOfMemoryIsNeverTheBest) {
  ReplayReport report = testing::sample_replays();
  report.results[1] = testing::sample_oom("torch:max_split_size_mb=128");
  report.results[1].result.peak_reserved_bytes = kGiB;
  const std::string text = draw_replay(report);
  EXPECT_THAT(line_with(text, " 2  torch:max"), HasSubstr("OOM"));
  EXPECT_THAT(line_with(text, " 2  torch:max"), Not(HasSubstr("*")));
  EXPECT_THAT(line_with(text, " 3  cuda_async"), HasSubstr("* 19 GiB"));
}

TEST(ReplayText, AnOomSaysWhereAndWhy) {
  ReplayReport report = testing::sample_replay();
  report.results = {testing::sample_oom("torch")};
  std::string text = unwrapped(draw_replay(report));
  EXPECT_THAT(text,
              HasSubstr("out of memory at event 4,711, 6 s, step 6: asked for 2 GiB with 20 "
                        "GiB reserved and 15 GiB allocated; the largest free block was 1 GiB"));
  EXPECT_THAT(text, HasSubstr("5 GiB of the capacity held no live block, but not in one"));
  EXPECT_THAT(text, HasSubstr("3 retries"));
  EXPECT_THAT(text, HasSubstr("▼ out of memory, asked 2 GiB"));
  report.results[0].result.oom->allocated_bytes = 19 * kGiB;
  text = unwrapped(draw_replay(report));
  EXPECT_THAT(text, HasSubstr("What was alive and what was asked for exceed the capacity"));
}

TEST(ReplayText, SaysWhereAddressesDecide) {
  ReplayReport report = testing::sample_replays();
  report.results[0].result.layouts_tried = report.results[1].result.layouts_tried = 9;
  report.results[0].result.layouts_completed = 4;
  report.results[1].result.layouts_completed = 9;
  const std::string text = unwrapped(draw_replay(report));
  EXPECT_THAT(text, HasSubstr("completes in 4 of 9 layouts of addresses"));
  EXPECT_THAT(text, HasSubstr("completes, in all 9 layouts of addresses"));
  EXPECT_THAT(line_with(draw_replay(report), " 1  torch "), HasSubstr("4 of 9"));
}

TEST(ReplayText, ExactMeansThatEveryRecordedCallCameOut) {
  ReplayReport report = testing::sample_replays();
  std::string text = unwrapped(draw_replay(report));
  EXPECT_THAT(text, HasSubstr("exact: the 102 recorded driver calls came out"));
  EXPECT_THAT(text, HasSubstr("an emulation: under the recorded conditions, the 102 recorded"));
  EXPECT_THAT(text, HasSubstr("would reserve 8 GiB less"));
  report.fidelity.matched_calls = 40;
  text = unwrapped(draw_replay(report));
  EXPECT_THAT(text, Not(HasSubstr("exact")));
  EXPECT_THAT(text, HasSubstr("diverges after call 40 of 102 recorded driver calls"));
  EXPECT_THAT(text, HasSubstr("would reserve about 8 GiB less"));
  EXPECT_THAT(line_with(draw_replay(report), " 2  torch:exp"), HasSubstr("estimate"));
  EXPECT_THAT(text, Not(HasSubstr("where the program reserved")));
  report.fidelity.recorded_peak_bytes = 30 * kGiB;
  report.fidelity.made_peak_bytes = 24 * kGiB;
  EXPECT_THAT(
      unwrapped(draw_replay(report)),
      HasSubstr("calls, and reserves 24 GiB at its peak where the program reserved 30 GiB"));
  report.fidelity = {};
  EXPECT_THAT(unwrapped(draw_replay(report)), HasSubstr("no driver call is recorded to check"));
}

TEST(ReplayText, SaysFromWhatStateAReplayBegins) {
  ReplayReport report = testing::sample_replays();
  EXPECT_THAT(unwrapped(draw_replay(report)), Not(HasSubstr("begins with the memory")));
  report.results[0].result.start = replay::Start::kRecorded;
  report.results[0].result.start_reserved_bytes = 7 * kGiB;
  report.results[1].result.start = replay::Start::kModel;
  const std::string text = unwrapped(draw_replay(report));
  EXPECT_THAT(text, HasSubstr("begins with the memory as it was then, 7 GiB reserved"));
  EXPECT_THAT(text, HasSubstr("an estimate: the recording begins in the middle of the program; the "
                              "start is a model: what was alive then is requested anew"));
}

TEST(ReplayText, APeakBeforeTheRecordingIsNoBaseForASaving) {
  ReplayReport report = testing::sample_replays();
  report.fidelity.peak_is_before = true;
  report.fidelity.start_reserved_bytes = 25 * kGiB;
  const std::string text = unwrapped(draw_replay(report));
  EXPECT_THAT(text, HasSubstr("What other settings would save is unknown: the recording begins "
                              "with 25 GiB reserved and never has more"));
  EXPECT_THAT(text, Not(HasSubstr("less than")));
  report.fidelity.start_is_unknown = true;
  EXPECT_THAT(unwrapped(draw_replay(report)), HasSubstr("nothing says how much was reserved then"));
}

TEST(ReplayText, SaysWhatTheDeviceHeld) {
  ReplayReport report = testing::sample_replay();
  report.capacity_bytes = 16 * kGiB;
  report.capacity_source = CapacitySource::kAsked;
  EXPECT_THAT(draw_replay(report), HasSubstr("replayed on a device of 16 GiB"));
  report.capacity_source = CapacitySource::kRecorded;
  EXPECT_THAT(unwrapped(draw_replay(report)),
              HasSubstr("a device of 16 GiB, the limit that the recorded program met"));
}

TEST(ReplayText, ALimitThatIsAssumedIsNotCalledTheOneThatWasMet) {
  ReplayReport report = testing::sample_replay();
  report.capacity_bytes = 16 * kGiB;
  report.capacity_source = CapacitySource::kRecorded;
  report.recorded_limit_unknown = true;
  EXPECT_THAT(unwrapped(draw_replay(report)),
              HasSubstr("a device of 16 GiB, the most that the recorded program had"));
}

TEST(ReplayText, SaysWhatTheRecordingLacks) {
  ReplayReport report = testing::sample_replay();
  EXPECT_THAT(draw_replay(report), Not(HasSubstr("✖")));
  report.truncated_at_byte = 123'456;
  report.ring_overflowed = true;
  report.recorded_limit_unknown = true;
  report.events = 0;
  const std::string text = unwrapped(draw_replay(report));
  EXPECT_THAT(text, HasSubstr("cut off at byte 123,456"));
  EXPECT_THAT(text, HasSubstr("the first part of the recording is missing"));
  EXPECT_THAT(text, HasSubstr("no one limit explains"));
  EXPECT_THAT(text, HasSubstr("no events were recorded"));
}

TEST(ReplayText, TheSmallestCapacityComesWithItsRetries) {
  ReplayReport report = testing::sample_replays();
  report.searched_min_capacity = true;
  report.results[0].result.min_capacity_bytes = 18 * kGiB;
  report.results[0].result.min_capacity_retries = 12;
  report.results[1].result.min_capacity_bytes = 16 * kGiB;
  report.results[1].result.min_capacity_retries = 0;
  const std::string text = draw_replay(report);
  EXPECT_THAT(text, HasSubstr("18 GiB, the smallest capacity that suffices, at the price of 12 "
                              "retries there"));
  EXPECT_THAT(text, HasSubstr("16 GiB, the smallest capacity that suffices, without retries"));
  EXPECT_THAT(text, HasSubstr("unknown: no capacity that was tried"));
  EXPECT_THAT(line_with(text, " 2  torch:exp"), HasSubstr("* 16 GiB"));
}

TEST(ReplayText, ManyReplaysAreDrawnWithoutPlots) {
  ReplayReport report = testing::sample_replays();
  EXPECT_THAT(draw_replay(report), HasSubstr("┤"));
  report.results.push_back(testing::sample_replayed("cupy", 30 * kGiB));
  EXPECT_THAT(draw_replay(report), Not(HasSubstr("┤")));
}

TEST(ReplayText, PlotsBesideEachOtherHaveOneScale) {
  const std::string text = draw_replay(testing::sample_replays());
  size_t count = 0;
  for (size_t at = text.find("25 GiB ┤"); at != std::string::npos;
       at = text.find("25 GiB ┤", at + 1))
    ++count;
  EXPECT_EQ(count, 3U) << text;
}

TEST(ReplayText, WithoutAClockTimesAreEvents) {
  ReplayReport report = testing::sample_replay();
  report.has_time = false;
  report.results = {testing::sample_oom("torch")};
  for (auto& point : report.results[0].result.curve) point.time_ns = 0;
  report.results[0].result.oom->time_ns = 0;
  const std::string text = unwrapped(draw_replay(report));
  EXPECT_THAT(text, HasSubstr("recorded without a clock"));
  EXPECT_THAT(text, HasSubstr("out of memory at event 4,711, step 6: asked"));
  EXPECT_THAT(text, HasSubstr("40,000"));
}

TEST(ReplayText, AResultWithNearlyNothingIsDrawn) {
  ReplayReport report;
  report.results.emplace_back();
  report.results[0].result.completed = true;
  EXPECT_THAT(draw_replay(report), HasSubstr("no calls"));
}

TEST(ReplayText, WithoutUnicodeEveryByteIsPrintableAscii) {
  for (const char c : draw_replay(rich_report(), {.unicode = false}))
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
}

TEST(ReplayText, EscapeCodesOnlyWithColour) {
  EXPECT_THAT(draw_replay(rich_report()), Not(HasSubstr("\x1b")));
  EXPECT_THAT(draw_replay(rich_report(), {.colour = true}), HasSubstr("\x1b["));
}

TEST(Difference, IsInBytesAgainstTheRecordedSettings) {
  EXPECT_EQ(difference_sentence(testing::sample_replays()),
            "torch:expandable_segments=True would reserve 8 GiB less than the recording's own "
            "settings (torch): 17 GiB instead of 25 GiB.");
}

TEST(Difference, HoldsASingleReplayAgainstTheRecordedSettingsToo) {
  ReplayReport report = testing::sample_replay();
  EXPECT_EQ(difference_sentence(report), "");
  report.results = {testing::sample_replayed("tf_bfc", 30 * kGiB)};
  report.results[0].result.model = true;
  EXPECT_EQ(difference_sentence(report),
            "tf_bfc (model) would reserve 5 GiB more than the recording's own settings (torch): 30 "
            "GiB instead of 25 GiB.");
  report.results = {testing::sample_replayed("torch:max_split_size_mb=512", 25 * kGiB)};
  EXPECT_EQ(difference_sentence(report),
            "torch:max_split_size_mb=512 would reserve as much as the recording's own settings "
            "(torch): 25 GiB.");
}

TEST(Difference, CompletingCountsMoreThanBytes) {
  ReplayReport report = testing::sample_replays();
  report.recorded = report.results[0] = testing::sample_oom("torch");
  report.recorded.is_recorded = report.results[0].is_recorded = true;
  EXPECT_EQ(difference_sentence(report),
            "With torch:expandable_segments=True the program completes in 17 GiB reserved; with "
            "the recording's own settings (torch) it runs out of memory.");
  report.results[1] = testing::sample_oom("torch:expandable_segments=True");
  EXPECT_THAT(difference_sentence(report), HasSubstr("With cuda_async (model) the program"));
  report.results[2] = testing::sample_oom("cuda_async");
  EXPECT_EQ(difference_sentence(report),
            "With the recording's own settings (torch) the program runs out of memory, and none of "
            "the others changes that.");
}

TEST(Difference, SaysWhenTheOthersRunOutOfMemory) {
  ReplayReport report = testing::sample_replays();
  report.results.pop_back();
  report.results[1] = testing::sample_oom("gmlake");
  EXPECT_EQ(difference_sentence(report),
            "With the recording's own settings (torch) the program completes in 25 GiB reserved; "
            "with gmlake it runs out of memory.");
}

}  // namespace
}  // namespace vram::show
