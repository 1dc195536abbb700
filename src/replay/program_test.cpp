#include "replay/program.hpp"

#include "base/bytes.hpp"
#include "base/time.hpp"
#include "replay/recorded_limit.hpp"
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

namespace vram::replay {
namespace {

using trace::EventKind;

std::vector<OpKind> kinds(const Program& program) {
  std::vector<OpKind> list;
  for (const Op& op : program.ops) list.push_back(op.kind);
  return list;
}

TEST(Program, PairsFreesWithAllocationsByAddress) {
  TraceMaker t;
  t.add(EventKind::kAlloc, 512, 100);
  t.add(EventKind::kAlloc, 1024, 200, 0);
  t.free(512, 100);
  t.add(EventKind::kAlloc, 512, 300);  // the address again: another block
  t.add(EventKind::kFreeRequested, 1024, 200);
  t.free(512, 300);
  t.add(EventKind::kFreeCompleted, 1024, 200);
  const Program program = t.make();
  EXPECT_EQ(kinds(program),
            (std::vector{OpKind::kAlloc, OpKind::kAlloc, OpKind::kFree, OpKind::kAlloc,
                         OpKind::kFreeLater, OpKind::kFree, OpKind::kComplete}));
  EXPECT_EQ(program.block_count, 3u);
  EXPECT_EQ(program.ops[2].block, 0u);
  EXPECT_EQ(program.ops[4].block, 1u);
  EXPECT_EQ(program.ops[5].block, 2u);
  EXPECT_EQ(program.ops[6].block, 1u);
  EXPECT_EQ(program.ops[6].event, 8u);
  EXPECT_EQ(program.ops[6].time_ns, 8000);
  EXPECT_EQ(program.duration_ns, 8000);
}

TEST(Program, KnowsThatADryRunAssumedItsAddresses) {
  trace::Trace trace;
  trace.devices.emplace_back();
  EXPECT_FALSE(make_program(trace, trace.devices.front()).has_assumed_addresses);
  trace.about.push_back({"vram.dry_run", "1"});
  EXPECT_TRUE(make_program(trace, trace.devices.front()).has_assumed_addresses);
}

TEST(Program, TimesOfAnyFileRiseWithTheClock) {
  trace::Trace trace;
  trace.has_time = true;
  trace::DeviceTrace& device = trace.devices.emplace_back();
  for (const int64_t time_ns : {INT64_MIN, INT64_MAX, INT64_MAX})
    trace.events.push_back({.time_ns = time_ns, .size_bytes = 512, .kind = EventKind::kAlloc});
  device.event_count = trace.events.size();
  const Program program = make_program(trace, device);
  EXPECT_EQ(program.ops[0].time_ns, 0);
  EXPECT_EQ(program.ops[program.ops.size() - 1].time_ns, kMaxDurationNs);
  EXPECT_EQ(program.duration_ns, kMaxDurationNs);
}

TEST(Program, BlocksFromBeforeComeFirst) {
  TraceMaker t;
  t.free(4096, 500);
  t.add(EventKind::kFreeCompleted, 2048, 600);  // requested before the recording
  t.end_segment(0x200000, 2 * kMiB);
  t.end_block(0x200000, 1024, trace::BlockState::kAllocated);
  t.end_block(0x200400, 2 * kMiB - 1024, trace::BlockState::kInactive);
  const Program program = t.make();
  EXPECT_EQ(kinds(program), (std::vector{OpKind::kAlloc, OpKind::kFreeLater, OpKind::kAlloc,
                                         OpKind::kAlloc, OpKind::kFree, OpKind::kComplete}));
  EXPECT_EQ(program.ops[0].size_bytes, 600u);
  EXPECT_EQ(program.ops[2].size_bytes, 500u);
  EXPECT_EQ(program.ops[3].size_bytes, 1024u);
  ASSERT_EQ(program.initial_segments.size(), 1u);
  EXPECT_EQ(program.initial_segments[0].address, 0x200000u);
}

TEST(Program, RequestsAloneAreWholeFrees) {
  TraceMaker t;
  t.add(EventKind::kSegmentAlloc, 2 * kMiB, 2 * kMiB);
  t.add(EventKind::kAlloc, 2 * kMiB, 100);
  t.add(EventKind::kFreeRequested, 2 * kMiB, 100);
  t.add(EventKind::kAlloc, 2 * kMiB, 100);
  t.end_segment(2 * kMiB, 2 * kMiB);
  t.end_block(2 * kMiB, 512, trace::BlockState::kAllocated);
  EXPECT_EQ(kinds(t.make()), (std::vector{OpKind::kAlloc, OpKind::kFree, OpKind::kAlloc}));
}

// The other streams were not done when the recording ended: completions are recorded.
TEST(Program, ARequestThatIsPendingAtTheEndDoesNotComplete) {
  TraceMaker t;
  t.add(EventKind::kSegmentAlloc, 2 * kMiB, 2 * kMiB);
  t.add(EventKind::kAlloc, 2 * kMiB, 100);
  t.add(EventKind::kFreeRequested, 2 * kMiB, 100);
  t.end_segment(2 * kMiB, 2 * kMiB);
  t.end_block(2 * kMiB, 512, trace::BlockState::kPendingFree);
  EXPECT_EQ(kinds(t.make()), (std::vector{OpKind::kAlloc, OpKind::kFreeLater}));
}

TEST(Program, AnAllocationOverALiveBlockEndsIt) {
  TraceMaker t;
  t.add(EventKind::kAlloc, 512, 100);
  t.add(EventKind::kAlloc, 512, 200);
  t.add(EventKind::kFreeRequested, 512, 200);
  t.add(EventKind::kOther, 0, 0);
  t.add(EventKind::kAlloc, 512, 300);
  t.add(EventKind::kFreeCompleted, 512, 300);
  const Program program = t.make();
  EXPECT_EQ(kinds(program),
            (std::vector{OpKind::kAlloc, OpKind::kFree, OpKind::kAlloc, OpKind::kFreeLater,
                         OpKind::kComplete, OpKind::kAlloc, OpKind::kFree}));
  EXPECT_EQ(program.ops[1].block, 0u);
  EXPECT_EQ(program.ops[4].block, 1u);
  EXPECT_EQ(program.ops[6].block, 2u);
}

// The allocator had searched before it waited for the device: the completion comes after the
// request it could not help.
TEST(Program, CompletionsInsideARetryComeAfterIt) {
  TraceMaker t;
  t.take(64 * kMiB, 20 * kMiB);
  t.add(EventKind::kFreeRequested, 64 * kMiB, 20 * kMiB);
  t.add(EventKind::kOther, 0, 0);
  t.add(EventKind::kFreeCompleted, 64 * kMiB, 20 * kMiB);
  t.add(EventKind::kSegmentFree, 64 * kMiB, 20 * kMiB);
  t.take(128 * kMiB, 30 * kMiB);
  const Program program = t.make();
  EXPECT_EQ(kinds(program), (std::vector{OpKind::kAlloc, OpKind::kFreeLater, OpKind::kGivenBack,
                                         OpKind::kAlloc, OpKind::kComplete}));
  EXPECT_EQ(program.recorded_calls.size(), 3u);
  EXPECT_EQ(program.limit_bounds.device.largest_granted_bytes, 30 * kMiB);
  EXPECT_EQ(program.limit_bounds.device.smallest_refused_bytes, 50 * kMiB);
  EXPECT_EQ(recorded_limit(program), (RecordedLimit{48 * kMiB, false}));
}

TEST(Program, SegmentsGivenBackUnaskedAreAnEmptiedCacheNotALimit) {
  TraceMaker t;
  t.take(64 * kMiB, 20 * kMiB);
  t.free(64 * kMiB, 20 * kMiB);
  t.add(EventKind::kSegmentFree, 64 * kMiB, 20 * kMiB);
  t.add(EventKind::kAlloc, 32 * kMiB, 512);
  const Program program = t.make();
  EXPECT_EQ(kinds(program),
            (std::vector{OpKind::kAlloc, OpKind::kFree, OpKind::kEmptyCache, OpKind::kAlloc}));
  EXPECT_FALSE(program.limit_bounds.device.smallest_refused_bytes);
}

TEST(Program, AnOomBoundsTheLimitUnlessMoreWasGrantedElsewhen) {
  TraceMaker t;
  t.take(64 * kMiB, 20 * kMiB);
  t.add(EventKind::kOom, 0, 15 * kMiB);  // what the device had is not known
  // 36 MiB were refused.
  EXPECT_EQ(recorded_limit(t.make()), (RecordedLimit{34 * kMiB, false}));
  t.take(128 * kMiB, 40 * kMiB);
  EXPECT_FALSE(recorded_limit(t.make()));
}

TEST(Program, MappedPiecesAreUndoneAcrossEachOther) {
  TraceMaker t;
  t.add(EventKind::kSegmentMap, 22 * kMiB, 40 * kMiB);
  t.add(EventKind::kAlloc, 22 * kMiB, 40 * kMiB);
  t.add(EventKind::kSegmentUnmap, 22 * kMiB, 20 * kMiB);
  t.add(EventKind::kSegmentUnmap, 42 * kMiB, 20 * kMiB);
  t.add(EventKind::kAlloc, 1, 1);
  t.end_segment(2 * kMiB, 20 * kMiB, true);
  const Program program = t.make();
  ASSERT_EQ(program.initial_segments.size(), 1u);
  EXPECT_EQ(program.initial_segments[0].address, 2 * kMiB);
  EXPECT_EQ(program.initial_segments[0].size_bytes, 20 * kMiB);
}

TEST(Program, FindsTheRequestsOfAChoice) {
  TraceMaker t;
  t.add(EventKind::kOom, 0, 900);  // of no choice
  t.choice("7");
  t.add(EventKind::kOom, 0, 500);
  t.add(EventKind::kOom, 0, 300);
  t.add(EventKind::kAlloc, 512, 100);
  t.choice("9");
  t.add(EventKind::kOom, 0, 700);
  t.choice("7");
  t.add(EventKind::kOom, 0, 500);
  t.add(EventKind::kAlloc, 1024, 100);
  t.add(EventKind::kAlloc, 2048, 100);
  const Program program = t.make();
  ASSERT_EQ(program.choices.size(), 2u);
  EXPECT_EQ(program.choices[0].first_op, 1u);
  EXPECT_EQ(program.choices[0].refused_ops, 2u);
  EXPECT_EQ(program.choices[1].first_op, 5u) << "without the other choice's request";
  EXPECT_EQ(program.choices[1].refused_ops, 1u);
  EXPECT_EQ(program.choices[1].number, program.choices[0].number);
}

TEST(Program, AnEmptyTraceIsAnEmptyProgram) {
  const Program program = TraceMaker().make();
  EXPECT_TRUE(program.ops.empty());
  EXPECT_FALSE(recorded_limit(program));
}

}  // namespace
}  // namespace vram::replay
