#include "explain/findings/findings.hpp"

#include "base/bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace vram::explain {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A job without a fault: 10 GiB at the peak, 10.2 GiB reserved, stacks, an end state that agrees.
class FindingsTest : public ::testing::Test {
 protected:
  FindingsTest() {
    trace_.has_stacks = true;
    report_.allocations = 1000;
    report_.peak.requested.totals.requested_bytes = 10 * kGiB;
    report_.peak.reserved.totals.reserved_bytes = kReserved;
    report_.at_reserved_peak.moment.totals.reserved_bytes = kReserved;
    report_.at_reserved_peak.waste.releasable_bytes = kReserved / 50;
    report_.at_reserved_peak.waste.stranded_bytes = kReserved / 100;
    report_.at_reserved_peak.waste.rounding_bytes = kReserved / 100;
    report_.at_peak.breakdowns.push_back(
        {Dimension::kUserFrame, {holder("model.py:3 forward", 2 * kGiB)}});
    report_.verdict.confidence = Confidence::kExact;
    report_.steps.steps.resize(20);
  }

  static Holder holder(const char* name, uint64_t bytes) {
    Holder h;
    h.name = name;
    h.requested_bytes = bytes;
    h.count = 3;
    h.largest_bytes = bytes / 2;
    return h;
  }

  std::vector<Finding> all() { return find_findings(trace_, device_, report_); }

  // The one finding of a kind; fails when there is none or another kind too.
  Finding only(FindingKind kind) {
    const std::vector<Finding> found = all();
    EXPECT_EQ(found.size(), 1U);
    for (const Finding& f : found) EXPECT_EQ(f.kind, kind) << f.title;
    if (found.empty()) return {};
    EXPECT_THAT(found[0].title, Not(HasSubstr("\n")));
    EXPECT_FALSE(found[0].detail.empty());
    EXPECT_FALSE(found[0].advice.empty());
    return found[0];
  }

  static constexpr uint64_t kReserved = 10 * kGiB + 200 * kMiB;
  trace::Trace trace_;
  trace::DeviceTrace device_;
  DeviceReport report_;
};

TEST_F(FindingsTest, NothingToSayOfAHealthyJob) { EXPECT_THAT(all(), IsEmpty()); }

TEST_F(FindingsTest, FragmentationAdvisesExpandableSegments) {
  report_.at_reserved_peak.waste.stranded_bytes = 2 * kGiB;
  report_.at_reserved_peak.pinners.push_back({"train.py:9 ema", 10 * kMiB, kGiB, 12});
  const Finding f = only(FindingKind::kFragmentation);
  EXPECT_EQ(f.bytes, 2 * kGiB);
  EXPECT_THAT(f.title, HasSubstr("2 GiB"));
  EXPECT_THAT(f.detail, HasSubstr("train.py:9 ema"));
  EXPECT_THAT(f.advice, HasSubstr("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
}

TEST_F(FindingsTest, FragmentationAdviceKnowsTheSettings) {
  report_.at_reserved_peak.waste.stranded_bytes = 2 * kGiB;
  trace_.settings = {{"expandable_segments", "True"}, {"max_split_size", "-1"}};
  EXPECT_THAT(only(FindingKind::kFragmentation).advice, HasSubstr("is on already"));
  trace_.settings = {{"expandable_segments", "False"}, {"max_split_size", "134217728"}};
  EXPECT_THAT(only(FindingKind::kFragmentation).advice,
              HasSubstr("Remove max_split_size_mb (128 MiB)"));
  trace_.settings = {{"expandable_segments", "True"}, {"max_split_size", "134217728"}};
  EXPECT_THAT(only(FindingKind::kFragmentation).advice,
              HasSubstr("reserved memory can grow without end"));
}

TEST_F(FindingsTest, CacheInFreeSegments) {
  report_.at_reserved_peak.waste.releasable_bytes = 3 * kGiB;
  EXPECT_THAT(only(FindingKind::kReleasable).advice, HasSubstr("empty_cache() once"));
}

TEST_F(FindingsTest, CacheOfChangingShapesOrUnsplitSegments) {
  report_.at_reserved_peak.waste.releasable_bytes = 3 * kGiB;
  for (size_t i = 0; i < report_.steps.steps.size(); ++i) {
    report_.steps.steps[i].peak_requested_bytes = 8 * kGiB + i * 100 * kMiB;
  }
  EXPECT_THAT(only(FindingKind::kReleasable).advice, HasSubstr("expandable_segments:True"));
  trace_.settings = {{"expandable_segments", "True"}};
  EXPECT_THAT(only(FindingKind::kReleasable).advice, HasSubstr("empty_cache() once"));
  trace_.settings = {{"max_split_size", "134217728"}};
  EXPECT_THAT(only(FindingKind::kReleasable).advice,
              HasSubstr("Remove max_split_size_mb (128 MiB)"));
}

TEST_F(FindingsTest, PendingFrees) {
  report_.at_reserved_peak.waste.pending_bytes = kGiB;
  EXPECT_THAT(only(FindingKind::kPending).detail, HasSubstr("record_stream"));
}

TEST_F(FindingsTest, RoundingBlamesTheSettingOrTheTensors) {
  report_.at_reserved_peak.waste.rounding_bytes = kGiB;
  EXPECT_THAT(only(FindingKind::kRounding).advice, HasSubstr("flat buffer"));
  trace_.settings = {{"roundup_power2_divisions.1", "0"}, {"roundup_power2_divisions.256", "2"}};
  EXPECT_THAT(only(FindingKind::kRounding).advice, HasSubstr("Remove roundup_power2_divisions"));
}

TEST_F(FindingsTest, MemoryCachedForOtherStreams) {
  device_.has_end_state = true;
  const auto segment = [&](trace::StreamId stream, uint64_t bytes, trace::BlockState state) {
    trace::Segment s;
    s.size_bytes = bytes;
    s.first_block = device_.blocks.size();
    s.block_count = 1;
    s.stream = stream;
    device_.segments.push_back(s);
    trace::Block b;
    b.size_bytes = bytes;
    b.state = state;
    device_.blocks.push_back(b);
  };
  segment(0, 8 * kGiB, trace::BlockState::kInactive);
  segment(1, 2 * kGiB, trace::BlockState::kAllocated);
  EXPECT_THAT(all(), IsEmpty());
  segment(1, kGiB, trace::BlockState::kInactive);
  EXPECT_EQ(only(FindingKind::kStreams).bytes, kGiB);
}

TEST_F(FindingsTest, GarbageCollectionThatThrashes) {
  trace_.settings = {{"garbage_collection_threshold", "0.6"}};
  report_.device_frees = 19;
  EXPECT_THAT(all(), IsEmpty());
  report_.device_frees = 400;
  EXPECT_THAT(only(FindingKind::kFragmentation).title, HasSubstr("400 segments in 20 steps"));
}

TEST_F(FindingsTest, OutOfMemoryTellsWhetherItWouldHaveFit) {
  Oom oom;
  oom.requested_bytes = 500 * kMiB;
  oom.step = 7;
  oom.state.waste.stranded_bytes = kGiB;
  oom.state.breakdowns.push_back({Dimension::kUserFrame, {holder("model.py:3 forward", 2 * kGiB)}});
  report_.ooms.push_back(oom);
  Finding f = only(FindingKind::kOom);
  EXPECT_THAT(f.title, HasSubstr("in step 8: 500 MiB"));
  EXPECT_THAT(f.detail, HasSubstr("model.py:3 forward"));
  EXPECT_THAT(f.advice, HasSubstr("expandable_segments"));
  trace_.settings = {{"expandable_segments", "True"}};
  EXPECT_THAT(only(FindingKind::kOom).advice, HasSubstr("smaller batch"));
}

Growth growth(GrowthKind kind, uint64_t live_bytes, double per_step) {
  Growth g;
  g.kind = kind;
  g.site = "train.py:42 hook";
  g.stack = {{"hook", "/home/me/train.py", 42}};
  g.bytes_per_step = per_step;
  g.live_bytes = live_bytes;
  g.live_count = 20;
  g.p_value = 1e-6;
  return g;
}

TEST_F(FindingsTest, LeaksNameTheLineAndTheRate) {
  report_.growth.push_back(growth(GrowthKind::kLeak, 2 * kMiB, 128.0 * kKiB));
  for (size_t i = 0; i < report_.steps.steps.size(); ++i) {
    report_.steps.steps[i].end_requested_bytes = kGiB + i * 200 * kKiB;
  }
  const Finding f = only(FindingKind::kLeak);
  EXPECT_THAT(f.detail, HasSubstr("rise by 200 KiB a step in all"));
  EXPECT_THAT(f.title, HasSubstr("128 KiB a step from train.py:42 hook"));
  EXPECT_THAT(f.detail, Not(HasSubstr("doubles"))) << "in 81,920 steps";
  EXPECT_THAT(f.detail, Not(HasSubstr("p ="))) << "JSON has it";
  EXPECT_THAT(f.advice, HasSubstr("Look at train.py:42 hook"));
}

TEST_F(FindingsTest, ALeakThatSoonDoublesThePeakSaysWhen) {
  report_.growth.push_back(growth(GrowthKind::kLeak, 20 * kMiB, 1280.0 * kKiB));
  EXPECT_THAT(only(FindingKind::kLeak).detail, HasSubstr("peak doubles in 8,1"));
}

TEST_F(FindingsTest, ALeakWithoutStacksAsksForThem) {
  report_.growth.push_back(growth(GrowthKind::kLeak, 2 * kMiB, 128.0 * kKiB));
  report_.growth[0].stack.clear();
  EXPECT_THAT(only(FindingKind::kLeak).advice, HasSubstr("stacks=\"python\""));
}

TEST_F(FindingsTest, ALeakThatNeverHurtsIsNotTold) {
  report_.growth.push_back(growth(GrowthKind::kLeak, 10'240, 512));
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(FindingsTest, OneOffGrowthIsInformation) {
  report_.growth.push_back(growth(GrowthKind::kOneOff, 100 * kMiB, 0));
  EXPECT_THAT(all(), IsEmpty());
  report_.growth[0].live_bytes = kGiB;
  EXPECT_THAT(only(FindingKind::kGrowth).title, HasSubstr("Allocated once and kept: 1 GiB"));
}

TEST_F(FindingsTest, BigHolders) {
  report_.at_peak.breakdowns[0].holders = {holder("train.py:7 logits", 4 * kGiB)};
  EXPECT_THAT(only(FindingKind::kHolder).title, HasSubstr("train.py:7 logits holds 4 GiB"));
  report_.at_peak.breakdowns[0].holders[0].before_recording = true;
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(FindingsTest, ALeakIsNotToldAgainAsAHolder) {
  report_.at_peak.breakdowns[0].holders = {holder("train.py:42 hook", 4 * kGiB)};
  report_.growth.push_back(growth(GrowthKind::kLeak, 4 * kGiB, 4096.0 * kKiB));
  only(FindingKind::kLeak);
}

TEST_F(FindingsTest, TheRecordingItself) {
  report_.verdict = {Confidence::kOverflow, "details", 0, 0, 0};
  EXPECT_THAT(only(FindingKind::kRecording).advice, HasSubstr("max_entries"));
  report_.verdict.confidence = Confidence::kTruncated;
  EXPECT_THAT(only(FindingKind::kRecording).title, HasSubstr("cut off"));
  report_.verdict.confidence = Confidence::kContradiction;
  EXPECT_THAT(only(FindingKind::kRecording).title, HasSubstr("contradicts"));
  report_.verdict = {Confidence::kExact, "", 0, 6 * kGiB, 12};
  EXPECT_EQ(only(FindingKind::kRecording).bytes, 6 * kGiB);
  report_.verdict = {};
  trace_.has_stacks = false;
  EXPECT_THAT(only(FindingKind::kRecording).title, HasSubstr("No stacks"));
}

TEST_F(FindingsTest, ReplaysDecideWhetherExpandableSegmentsAreAdvised) {
  report_.at_reserved_peak.waste.stranded_bytes = 3 * kGiB;
  WhatIf own;
  own.allocator = "torch";
  own.is_recorded = own.completed = true;
  own.peak_reserved_bytes = kReserved;
  WhatIf other = own;
  other.allocator = "torch:expandable_segments=True";
  other.is_recorded = false;
  other.peak_reserved_bytes = 8 * kGiB;
  report_.what_if = WhatIfs{.capacity_bytes = {}, .replays = {own, other}};
  std::string advice = only(FindingKind::kFragmentation).advice;
  EXPECT_THAT(advice, HasSubstr("Set `export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`"));
  EXPECT_THAT(advice, HasSubstr("reserves 8 GiB at its peak instead of 10.2 GiB"));
  report_.what_if->replays[1].peak_reserved_bytes = kReserved;
  advice = only(FindingKind::kFragmentation).advice;
  EXPECT_THAT(advice, HasSubstr("expandable_segments would not help here"));
  EXPECT_THAT(advice, Not(HasSubstr("export")));
}

TEST_F(FindingsTest, AreOrderedByBytes) {
  report_.at_reserved_peak.waste.stranded_bytes = 2 * kGiB;
  report_.at_reserved_peak.waste.pending_bytes = kGiB;
  report_.at_reserved_peak.waste.releasable_bytes = 3 * kGiB;
  const std::vector<Finding> found = all();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end(),
                             [](const auto& a, const auto& b) { return a.bytes > b.bytes; }));
}

}  // namespace
}  // namespace vram::explain
