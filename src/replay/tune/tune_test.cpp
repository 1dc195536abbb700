#include "replay/tune/tune.hpp"

#include "base/bytes.hpp"
#include "replay/capacity.hpp"
#include "replay/registry.hpp"
#include "replay/testing/builders.hpp"
#include "replay/tune/tune_space.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace vram::replay {
namespace {

const AllocatorSpec kPlain{.name = "torch", .settings = {}};

TuneResult tuned(const Program& program, std::optional<uint64_t> capacity_bytes = {},
                 unsigned jobs = 2, std::string_view recorded = "torch") {
  return tune(program, parse_spec(recorded).value(),
              {.capacity_bytes = capacity_bytes, .jobs = jobs, .progress = {}});
}

const TuneCandidate* find(const TuneResult& result, std::string_view spec) {
  for (const TuneCandidate& each : result.ranked) {
    if (each.spec.to_string() == spec) return &each;
  }
  return nullptr;
}

const AllocatorSpec& best(const TuneResult& result) { return result.ranked.front().spec; }

// Requests that grow by 100 MiB each time: no segment that was cached is large enough, but
// expandable segments grow by the difference.
Program growing_requests() {
  ProgramBuilder p;
  for (uint64_t i = 1; i <= 20; ++i) p.free(p.alloc(i * 100 * kMiB));
  return p.build();
}

// Ten requests that grow by 30 MiB each time, and one above them.
Program growing_from(uint64_t low_bytes, uint64_t high_bytes) {
  ProgramBuilder p;
  for (uint64_t i = 0; i < 10; ++i) p.free(p.alloc(low_bytes + i * 30 * kMiB));
  p.free(p.alloc(high_bytes));
  return p.build();
}

TEST(Tune, FindsThatExpandableSegmentsDoNotFragment) {
  const TuneResult result = tuned(growing_requests());
  EXPECT_EQ(result.verdict, TuneVerdict::kBetter);
  EXPECT_EQ(best(result).to_string(), "torch:expandable_segments=True");
  EXPECT_EQ(result.ranked.front().result.peak_reserved_bytes, 2000 * kMiB);
  const TuneCandidate& own = result.ranked[result.recorded];
  EXPECT_TRUE(own.is_recorded);
  EXPECT_EQ(own.spec.to_string(), "torch");
  EXPECT_EQ(own.result.peak_reserved_bytes, 21'000 * kMiB);  // 100 + 200 + ... + 2000
  EXPECT_EQ(result.peak_live_bytes, 2000 * kMiB);
}

// Ten sizes between 520 and 790 MiB, each larger than the one before: divisions of 2 round them to
// 768 and 1024 MiB, so that two segments serve all.
TEST(Tune, FindsThatRoundingLetsRequestsShareSegments) {
  const TuneResult result = tuned(growing_from(520 * kMiB, 1000 * kMiB));
  const TuneCandidate* rounded = find(result, "torch:roundup_power2_divisions=2");
  ASSERT_NE(rounded, nullptr);
  EXPECT_EQ(rounded->result.peak_reserved_bytes, (768 + 1024) * kMiB);
  const TuneCandidate* plain = find(result, "torch");
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->result.peak_reserved_bytes, (5200 + 45 * 30 + 1000) * kMiB);
  EXPECT_LT(rounded->tier, plain->tier);
}

// One request of 1040 MiB that is never freed: divisions of 2 make 1536 MiB of it.
TEST(Tune, FindsThatRoundingWastes) {
  ProgramBuilder p;
  p.alloc(1040 * kMiB);
  const TuneResult result = tuned(p.build());
  EXPECT_EQ(result.verdict, TuneVerdict::kRecordedIsBest);
  EXPECT_EQ(best(result), kPlain);
  const TuneCandidate* rounded = find(result, "torch:roundup_power2_divisions=2");
  ASSERT_NE(rounded, nullptr);
  EXPECT_EQ(rounded->result.peak_reserved_bytes, 1536 * kMiB);
  EXPECT_GT(rounded->tier, 0U);
}

// A hole of 60 MiB next to 40 that live, in a segment that can't go back: 100 more do not fit in
// 180 MiB natively. Expandable segments return or extend the hole.
Program runs_out_natively() {
  ProgramBuilder p;
  const uint32_t large = p.alloc(100 * kMiB);
  p.free(large);
  p.alloc(40 * kMiB);
  p.alloc(100 * kMiB);
  return p.build();
}

TEST(Tune, CompletingCountsMost) {
  const TuneResult result = tuned(runs_out_natively(), 180 * kMiB);
  const TuneCandidate& own = result.ranked[result.recorded];
  EXPECT_FALSE(own.result.completed);
  EXPECT_EQ(result.verdict, TuneVerdict::kBetter);
  EXPECT_TRUE(result.ranked.front().result.completed);
  bool completes = true;
  for (const TuneCandidate& each : result.ranked) {
    EXPECT_TRUE(completes || !each.result.completed) << each.spec.to_string();
    completes = each.result.completed;
  }
}

TEST(Tune, SaysWhenNothingCanFit) {
  const TuneResult result = tuned(runs_out_natively(), 139 * kMiB);
  EXPECT_EQ(result.peak_live_bytes, 140 * kMiB);
  EXPECT_EQ(result.verdict, TuneVerdict::kCannotFit);
  EXPECT_TRUE(result.ranked[result.recorded].is_recorded);
  EXPECT_NE(tuned(runs_out_natively(), 140 * kMiB).verdict, TuneVerdict::kCannotFit);
}

// 3 MiB need a segment of 20 MiB at least, and a capacity is compared with that.
TEST(Tune, SaysWhenWhatFitsDoesNotComplete) {
  ProgramBuilder p;
  p.alloc(3 * kMiB);
  const TuneResult result = tuned(p.build(), 10 * kMiB);
  EXPECT_EQ(result.verdict, TuneVerdict::kNoneCompletes);
}

// It asked for 60 GiB once, and continued with less.
Program catches_an_oom() {
  ProgramBuilder p;
  p.alloc(kGiB);
  p.refused(60 * kGiB);
  p.free(p.alloc(kGiB));
  return p.build();
}

TEST(Tune, WhatTheProgramWentOnWithoutNeedNotFit) {
  const TuneResult result = tuned(catches_an_oom(), 24 * kGiB);
  EXPECT_EQ(result.peak_live_bytes, 2 * kGiB);
  EXPECT_EQ(result.verdict, TuneVerdict::kRecordedIsBest);
  EXPECT_EQ(result.ranked[result.recorded].result.caught_ooms, 1U);
}

// 48 MiB reserved, and no 20 in one piece; one segment that grew to 48 would have had room.
TEST(Tune, ServingWhatWasRefusedIsBetter) {
  ProgramBuilder p;
  const uint32_t low = p.alloc(24 * kMiB);
  const uint32_t high = p.alloc(24 * kMiB);
  p.free(low);
  p.free(high);
  p.alloc(12 * kMiB);
  p.alloc(13 * kMiB);
  p.refused(20 * kMiB);
  p.alloc(kMiB);
  const TuneResult result = tuned(p.build(), 62 * kMiB);
  EXPECT_EQ(result.verdict, TuneVerdict::kBetter);
  EXPECT_EQ(result.ranked.front().result.caught_ooms, 0U);
  const TuneCandidate& own = result.ranked[result.recorded];
  EXPECT_TRUE(own.result.completed);
  EXPECT_EQ(own.result.caught_ooms, 1U);
}

TEST(Tune, FewerSettingsWinAmongEquals) {
  const Program program = growing_requests();
  const TuneResult result =
      tuned(program, {}, 2, "torch:expandable_segments=True,large_segment_size_mb=32");
  const TuneCandidate& own = result.ranked[result.recorded];
  EXPECT_EQ(result.verdict, TuneVerdict::kRecordedIsBest);
  EXPECT_EQ(own.tier, 0U);
  EXPECT_EQ(best(result).to_string(), "torch:expandable_segments=True");
}

// Its threshold acts only in programs that set a limit themselves: others come first.
TEST(Tune, GarbageCollectionIsTheLastResort) {
  for (const TuneCandidate& each : tuned(growing_requests()).ranked)
    EXPECT_EQ(value_of(each.spec, "garbage_collection_threshold"), "");
  const TuneResult result = tuned(growing_requests(), 4 * kGiB);
  size_t last_without = 0;
  size_t first_with = result.ranked.size();
  for (size_t i = 0; i < result.ranked.size(); ++i) {
    const TuneCandidate& each = result.ranked[i];
    if (!each.result.completed) continue;
    const bool collects = !value_of(each.spec, "garbage_collection_threshold").empty();
    if (collects) first_with = std::min(first_with, i);
    if (!collects) last_without = i;
  }
  EXPECT_LT(first_with, result.ranked.size());
  EXPECT_LT(last_without, first_with);
}

// The program had set a limit, so its own settings ask for no code: only what is as good or better
// by what counts comes before them.
TEST(Tune, RecordedGarbageCollectionRanksByWhatItDoes) {
  const TuneResult result =
      tuned(growing_from(300 * kMiB, 900 * kMiB), 1500 * kMiB, 2,
            "torch:garbage_collection_threshold=0.6,large_segment_size_mb=32");
  const TuneCandidate& own = result.ranked[result.recorded];
  ASSERT_TRUE(own.is_recorded);
  ASSERT_TRUE(own.result.completed);
  const auto most = static_cast<double>(own.result.peak_reserved_bytes) * 1.02;
  for (size_t i = 0; i < result.recorded; ++i) {
    EXPECT_LE(static_cast<double>(result.ranked[i].result.peak_reserved_bytes), most)
        << result.ranked[i].spec.to_string();
  }
}

TEST(Tune, TheNumberOfThreadsChangesNothing) {
  const Program program = growing_from(300 * kMiB, 900 * kMiB);
  const TuneResult one = tuned(program, 8 * kGiB, 1);
  const TuneResult four = tuned(program, 8 * kGiB, 4);
  ASSERT_EQ(one.ranked.size(), four.ranked.size());
  EXPECT_EQ(one.replays, four.replays);
  EXPECT_EQ(one.verdict, four.verdict);
  for (size_t i = 0; i < one.ranked.size(); ++i) {
    EXPECT_EQ(one.ranked[i].spec, four.ranked[i].spec) << i;
    EXPECT_EQ(one.ranked[i].result.peak_reserved_bytes, four.ranked[i].result.peak_reserved_bytes);
    EXPECT_EQ(one.ranked[i].tier, four.ranked[i].tier);
  }
}

TEST(Tune, EachReplayIsMadeOnceAndReported) {
  std::vector<size_t> done;
  size_t planned_last = 0;
  TuneOptions options;
  options.jobs = 3;
  options.progress = [&](size_t now, size_t planned) {  // one thread at a time
    done.push_back(now);
    EXPECT_LE(now, planned);
    planned_last = planned;
  };
  const TuneResult result = tune(growing_requests(), kPlain, options);
  EXPECT_EQ(done.size(), result.replays);
  EXPECT_EQ(planned_last, result.replays);
  EXPECT_EQ(result.ranked.size() + result.others.size(), result.replays);
  std::vector<std::string> specs;
  for (const TuneCandidate& each : result.ranked) specs.push_back(each.spec.to_string());
  std::ranges::sort(specs);
  EXPECT_EQ(std::ranges::adjacent_find(specs), specs.end());
}

TEST(Tune, OtherAllocatorsAreRankedApart) {
  const TuneResult result = tuned(growing_requests());
  for (const TuneCandidate& each : result.ranked) EXPECT_EQ(each.spec.name, "torch");
  for (const TuneCandidate& each : result.others) EXPECT_NE(each.spec.name, "torch");
  // All but torch, whose settings are ranked.
  EXPECT_EQ(result.others.size(), peers().size() - 1);
}

TEST(Tune, AnEmptyProgramHasNothingToGain) {
  const TuneResult result = tuned(Program{});
  EXPECT_EQ(result.verdict, TuneVerdict::kRecordedIsBest);
  EXPECT_EQ(result.peak_live_bytes, 0U);
}

TEST(LivePeak, CountsWhatTensorsHold) {
  ProgramBuilder p;
  const uint32_t first = p.alloc(100);
  const uint32_t second = p.alloc(50);
  p.free_later(second);  // another stream uses it, the program does not
  p.alloc(30);
  p.complete(second);
  p.free(first);
  EXPECT_EQ(peak_live_bytes(p.build()), 150U);
  ProgramBuilder refused;
  refused.alloc(100);
  refused.refused(70);
  EXPECT_EQ(peak_live_bytes(refused.build()), 170U);
  ProgramBuilder caught;
  caught.alloc(100);
  caught.refused(70);
  caught.alloc(20);
  EXPECT_EQ(peak_live_bytes(caught.build()), 120U);
}

// Two segments of 100 MiB from before hold little of what the program needs now. Requested again,
// that takes 60 MiB; but what other settings would have had before is not known.
TEST(Tune, APeakBeforeTheRecordingIsNoBaseForASaving) {
  constexpr uint64_t kAt = uint64_t{1} << 40;
  TraceMaker t;
  t.add(trace::EventKind::kAlloc, kAt + 10 * kMiB, 20 * kMiB);
  for (const uint64_t at : {kAt, kAt + 200 * kMiB}) {
    const uint64_t live = at == kAt ? 30 * kMiB : 10 * kMiB;
    t.end_segment(at, 100 * kMiB);
    t.end_block(at, 10 * kMiB, trace::BlockState::kAllocated);
    if (at == kAt) t.end_block(at + 10 * kMiB, 20 * kMiB, trace::BlockState::kAllocated);
    t.end_block(at + live, 100 * kMiB - live, trace::BlockState::kInactive);
  }
  const TuneResult result = tuned(t.make());
  EXPECT_EQ(result.verdict, TuneVerdict::kPeakIsBefore);
  EXPECT_EQ(result.ranked[result.recorded].result.peak_reserved_bytes, 200 * kMiB);
}

}  // namespace
}  // namespace vram::replay
