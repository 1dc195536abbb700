// size: one fixture, and each finding with it
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

// Nothing was replayed: what may help is said, and that it was not replayed.
TEST_F(FindingsTest, FragmentationNamesWhoHoldsItOpen) {
  report_.at_reserved_peak.waste.stranded_bytes = 2 * kGiB;
  report_.at_reserved_peak.pinners.push_back({"train.py:9 ema", 10 * kMiB, kGiB, 12});
  const Finding f = only(FindingKind::kFragmentation);
  EXPECT_EQ(f.bytes, 2 * kGiB);
  EXPECT_THAT(f.title, HasSubstr("2 GiB"));
  EXPECT_THAT(f.detail, HasSubstr("train.py:9 ema"));
  EXPECT_THAT(f.advice, HasSubstr("expandable_segments:True` may help"));
  EXPECT_THAT(f.advice, HasSubstr("could not be replayed"));
}

TEST_F(FindingsTest, FragmentationAdviceKnowsTheSettings) {
  report_.at_reserved_peak.waste.stranded_bytes = 2 * kGiB;
  trace_.settings = {{"expandable_segments", "True"}, {"max_split_size", "-1"}};
  EXPECT_THAT(only(FindingKind::kFragmentation).advice, HasSubstr("Allocate what lives long"));
  EXPECT_THAT(only(FindingKind::kFragmentation).advice, Not(HasSubstr("expandable_segments")));
  trace_.settings = {{"expandable_segments", "False"}, {"max_split_size", "134217728"}};
  EXPECT_THAT(only(FindingKind::kFragmentation).advice, HasSubstr("Remove max_split_size_mb"));
  trace_.settings = {{"expandable_segments", "True"}, {"max_split_size", "134217728"}};
  EXPECT_THAT(only(FindingKind::kFragmentation).advice,
              HasSubstr("reserved memory can grow without end"));
}

// PyTorch uses it for what comes next, and gives it back before it fails.
TEST_F(FindingsTest, ACacheThatNoSettingShrinksNeedsNoAction) {
  report_.at_reserved_peak.waste.releasable_bytes = 3 * kGiB;
  EXPECT_THAT(all(), IsEmpty());
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
  const auto segment = [&](trace::StreamId stream, uint64_t bytes, trace::BlockState state,
                           trace::PoolId pool = 0) {
    trace::Segment s;
    s.size_bytes = bytes;
    s.pool = pool;
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
  // A CUDA graph's: it captures on a stream of its own, and often holds most.
  segment(2, 9 * kGiB, trace::BlockState::kInactive, 1);
  EXPECT_THAT(all(), IsEmpty());
  segment(1, kGiB, trace::BlockState::kInactive);
  EXPECT_EQ(only(FindingKind::kStreams).bytes, kGiB);
  segment(1, 30 * kGiB, trace::BlockState::kAllocated);
  EXPECT_EQ(only(FindingKind::kStreams).bytes, kGiB) << "the default stream is the main one";
}

TEST_F(FindingsTest, GarbageCollectionThatThrashes) {
  trace_.settings = {{"garbage_collection_threshold", "0.6"}};
  report_.device_frees = 19;
  EXPECT_THAT(all(), IsEmpty());
  report_.device_frees = 400;
  EXPECT_THAT(only(FindingKind::kFragmentation).title, HasSubstr("400 segments in 20 steps"));
}

Growth growth(GrowthKind kind, uint64_t live_bytes, double per_step) {
  Growth g;
  g.kind = kind;
  g.site = "train.py:42 hook";
  g.line = g.site;
  g.stack = {{"hook", "/home/me/train.py", 42}};
  g.bytes_per_step = per_step;
  g.live_bytes = live_bytes;
  g.live_count = 20;
  return g;
}

Oom oom_of(uint64_t requested_bytes) {
  Oom oom;
  oom.requested_bytes = requested_bytes;
  oom.device_free_bytes = 70 * kGiB;
  oom.step = 7;
  return oom;
}

TEST_F(FindingsTest, OutOfMemoryNamesTheStepTheHolderAndWhatToSave) {
  report_.ooms.push_back(oom_of(500 * kMiB));
  report_.ooms[0].state.waste.stranded_bytes = kGiB;
  report_.ooms[0].state.breakdowns.push_back(
      {Dimension::kUserFrame,
       {holder("before recording", 4 * kGiB), holder("model.py:3 forward", 2 * kGiB)}});
  Finding f = only(FindingKind::kOom);
  EXPECT_EQ(f.title, "Out of memory in step 7: 500 MiB asked for");
  EXPECT_THAT(f.detail, HasSubstr("Largest holder: model.py:3 forward"));
  EXPECT_THAT(f.advice, HasSubstr("expandable_segments:True` may make room"));
  trace_.settings = {{"expandable_segments", "True"}};
  f = only(FindingKind::kOom);
  EXPECT_THAT(f.advice, HasSubstr("smaller batch"));
  EXPECT_THAT(f.advice, Not(HasSubstr("expandable")));
}

// "The device had 70 GiB free" alone leaves open why 500 MiB were refused.
TEST_F(FindingsTest, OutOfMemoryNamesTheLimitInForce) {
  report_.ooms.push_back(oom_of(500 * kMiB));
  EXPECT_THAT(only(FindingKind::kOom).detail, HasSubstr("The device had 70 GiB free."));
  report_.ooms[0].limit_bytes = 6 * kGiB;
  const Finding f = only(FindingKind::kOom);
  EXPECT_THAT(f.detail, HasSubstr("A limit of about 6 GiB on this process was in force; the device "
                                  "itself had 70 GiB free."));
  EXPECT_THAT(f.advice, HasSubstr("set_per_process_memory_fraction"));
}

// A hole may be large enough and yet serve another pool or stream only.
TEST_F(FindingsTest, OutOfMemoryDoesNotDenyALargeHole) {
  report_.ooms.push_back(oom_of(kGiB));
  report_.ooms[0].largest_hole_bytes = 3 * kGiB;
  report_.ooms[0].state.waste.largest_hole_domain = "requests over 1 MiB, stream 0x55";
  EXPECT_THAT(only(FindingKind::kOom).detail,
              HasSubstr("A free block of 3 GiB serves requests over 1 MiB, stream 0x55 only."));
}

TEST_F(FindingsTest, SeveralOutOfMemoriesAreOneFindingAndTheFirst) {
  report_.ooms = {oom_of(500 * kMiB), oom_of(kGiB)};
  report_.oom_count = 2000;  // of which a report explains a few
  report_.growth.push_back(growth(GrowthKind::kLeak, 20 * kGiB, 1.0 * kGiB));
  const std::vector<Finding> found = all();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].title, "Out of memory in step 7: 500 MiB asked for; 2,000 requests failed");
  EXPECT_EQ(found[1].kind, FindingKind::kLeak);
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

TEST_F(FindingsTest, ALeakStatesItsIntervalAndItsFirstStep) {
  Growth g = growth(GrowthKind::kLeak, 2 * kMiB, 128.0 * kKiB);
  g.bytes_per_step_low = 120.0 * kKiB;
  g.bytes_per_step_high = 136.0 * kKiB;
  g.since_step = 9;
  report_.growth.push_back(g);
  const std::string detail = only(FindingKind::kLeak).detail;
  EXPECT_THAT(detail, HasSubstr("the first from step 9;"));
  EXPECT_THAT(detail, HasSubstr("120 KiB to 136 KiB a step with 95 % confidence"));
  EXPECT_THAT(only(FindingKind::kLeak).advice, HasSubstr("vram.why_alive("));
}

TEST_F(FindingsTest, ALeakStatesWhenTheDeviceIsFull) {
  Growth g = growth(GrowthKind::kLeak, 2 * kMiB, 128.0 * kKiB);
  g.steps_to_full = 7200;
  report_.growth.push_back(g);
  EXPECT_THAT(only(FindingKind::kLeak).detail, HasSubstr("the device is full in 7,200 steps."));
  trace_.has_time = true;
  for (Step& step : report_.steps.steps) step.end_ns = 500'000'000;
  EXPECT_THAT(only(FindingKind::kLeak).detail, HasSubstr("in 7,200 steps, after 60 min"));
}

TEST_F(FindingsTest, WithoutFreesThereIsNoVerdictOnLeaks) {
  report_.leak_verdict = LeakVerdict::kTooFewSteps;
  EXPECT_THAT(all(), IsEmpty());
  report_.leak_verdict = LeakVerdict::kNoFrees;
  EXPECT_EQ(only(FindingKind::kRecording).title,
            "No verdict on leaks: the recording contains no frees");
}

TEST_F(FindingsTest, ALeakThatNeverHurtsIsNotTold) {
  report_.growth.push_back(growth(GrowthKind::kLeak, 10'240, 512));
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(FindingsTest, WhatIsAllocatedOnceAndKeptNeedsNoActionButACacheALimit) {
  report_.growth.push_back(growth(GrowthKind::kOneOff, kGiB, 0));
  EXPECT_THAT(all(), IsEmpty());
  report_.growth[0].kind = GrowthKind::kBoundedCache;
  EXPECT_THAT(only(FindingKind::kGrowth).advice, HasSubstr("check that the cache has a limit"));
}

TEST_F(FindingsTest, ATensorThatGrowsHasAFindingOfItsOwn) {
  report_.growth.push_back(growth(GrowthKind::kUndecided, kGiB, 512));
  EXPECT_THAT(only(FindingKind::kGrowth).title, HasSubstr("A tensor that grows: 512 B a step"));
  EXPECT_THAT(only(FindingKind::kGrowth).advice, HasSubstr("The cache of a sequence ends"));
  report_.growth[0].birth_steps = 5;
  EXPECT_THAT(only(FindingKind::kGrowth).title, HasSubstr("A leak or a cache that fills"));
}

TEST_F(FindingsTest, BigHolders) {
  report_.at_peak.breakdowns[0].holders = {holder("train.py:7 logits", 4 * kGiB)};
  EXPECT_THAT(only(FindingKind::kHolder).title, HasSubstr("train.py:7 logits holds 4 GiB"));
  report_.at_peak.breakdowns[0].holders[0].count = 1;
  EXPECT_EQ(only(FindingKind::kHolder).detail, "1 block.");
  report_.at_peak.breakdowns[0].holders[0].before_recording = true;  // the end state has its stack
  EXPECT_THAT(only(FindingKind::kHolder).title, HasSubstr("train.py:7 logits holds 4 GiB"));
  report_.at_peak.breakdowns[0].holders[0].name = "no stack recorded";
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
  report_.verdict = {};
  trace_.has_stacks = false;
  EXPECT_THAT(only(FindingKind::kRecording).title, HasSubstr("No stacks"));
}

// Blocks from before whose stack the end state has are named among the holders.
TEST_F(FindingsTest, OnlyWhatHasNoKnownPlaceIsMissed) {
  Holder named = holder("model.py:3 forward", 2 * kGiB);
  named.before_recording = true;
  report_.at_peak.breakdowns[0].holders = {named, holder("before recording", kGiB)};
  report_.verdict.before_recording_bytes = 11 * kGiB;  // blocks, more than was asked for
  EXPECT_THAT(all(), IsEmpty());
  report_.at_peak.breakdowns[0].holders = {holder("before recording", 6 * kGiB)};
  const Finding f = only(FindingKind::kRecording);
  EXPECT_EQ(f.bytes, 6 * kGiB);
  EXPECT_THAT(f.detail, HasSubstr("60.0 % of the peak, without the place they come from."));
}

// One call records both what was there before and the stacks.
TEST_F(FindingsTest, WhatAnotherRecordingWouldShowIsOneFinding) {
  trace_.has_stacks = false;
  report_.at_peak.breakdowns = {{Dimension::kSize, {holder("4 MiB blocks", 6 * kGiB)}},
                                {Dimension::kAge, {holder("before recording", 6 * kGiB)}}};
  const Finding f = only(FindingKind::kRecording);
  EXPECT_THAT(f.detail, HasSubstr("No stacks were recorded for the others."));
  EXPECT_THAT(f.advice, HasSubstr("stacks=\"python\""));
}

class FindingsReplayed : public FindingsTest {
 protected:
  // The recorded settings and expandable segments, which are recommended.
  void replay(uint64_t own_bytes, uint64_t other_bytes) {
    WhatIf own;
    own.allocator = "torch";
    own.is_recorded = own.completed = true;
    own.peak_reserved_bytes = own_bytes;
    WhatIf other = own;
    other.allocator = "torch:expandable_segments=True";
    other.is_recorded = false;
    other.is_recommended = true;
    other.peak_reserved_bytes = other_bytes;
    report_.what_if = WhatIfs{.capacity_bytes = {}, .replays = {own, other}};
  }
};

TEST_F(FindingsReplayed, OneSettingIsOneFindingWithTheReplaysGain) {
  report_.at_reserved_peak.waste.stranded_bytes = 3 * kGiB;
  report_.at_reserved_peak.waste.releasable_bytes = 2 * kGiB;
  report_.at_reserved_peak.waste.rounding_bytes = kGiB;
  trace_.settings = {{"roundup_power2_divisions.1", "0"}, {"roundup_power2_divisions.256", "2"}};
  replay(kReserved, 8 * kGiB);
  const Finding f = only(FindingKind::kFragmentation);
  EXPECT_EQ(f.bytes, kReserved - 8 * kGiB);
  EXPECT_THAT(f.title, HasSubstr("saves 2.2 GiB (21.5 % of reserved)"));
  EXPECT_THAT(f.detail, HasSubstr("2 GiB lay in whole free segments, 3 GiB in 0 holes between live "
                                  "blocks and 1 GiB in rounding"));
  EXPECT_THAT(f.advice, HasSubstr("Set `export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` "
                                  "in place of `roundup_power2_divisions:["));
  EXPECT_THAT(f.advice, HasSubstr("reserves 8 GiB at its peak instead of 10.2 GiB"));
}

TEST_F(FindingsReplayed, WithoutARecommendationNoSettingIsNamed) {
  report_.at_reserved_peak.waste.stranded_bytes = 3 * kGiB;
  replay(kReserved, kReserved);
  report_.what_if->replays[1].is_recommended = false;
  const std::string advice = only(FindingKind::kFragmentation).advice;
  EXPECT_THAT(advice, HasSubstr("No setting replayed here does noticeably better"));
  EXPECT_THAT(advice, Not(HasSubstr("export")));
}

TEST_F(FindingsReplayed, AnOutOfMemoryHasTheSettingAlone) {
  report_.at_reserved_peak.waste.stranded_bytes = 3 * kGiB;
  report_.ooms.push_back(oom_of(500 * kMiB));
  replay(kReserved, 8 * kGiB);
  report_.what_if->replays[0].completed = false;
  report_.what_if->capacity_bytes = 11 * kGiB;
  EXPECT_THAT(only(FindingKind::kOom).advice,
              HasSubstr("at the limit of 11 GiB, this program completes with 8 GiB reserved"));
}

// Segments that were assumed say nothing about what lay unused in them.
TEST_F(FindingsTest, WasteOfAssumedSegmentsIsNotTold) {
  report_.at_reserved_peak.waste.stranded_bytes = 3 * kGiB;
  report_.verdict.assumed_segment_bytes = 5 * kGiB;
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(FindingsTest, AreOrderedByBytesAndTheRecordingComesLast) {
  report_.at_reserved_peak.waste.stranded_bytes = 2 * kGiB;
  report_.at_reserved_peak.waste.pending_bytes = kGiB;
  report_.at_reserved_peak.waste.rounding_bytes = 3 * kGiB;
  report_.at_peak.breakdowns[0].holders = {holder("before recording", 9 * kGiB)};
  const std::vector<Finding> found = all();
  ASSERT_EQ(found.size(), 4U);
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end() - 1,
                             [](const auto& a, const auto& b) { return a.bytes > b.bytes; }));
  EXPECT_EQ(found.back().kind, FindingKind::kRecording);
}

}  // namespace
}  // namespace vram::explain
