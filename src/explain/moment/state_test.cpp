#include "explain/moment/state.hpp"

#include "base/bytes.hpp"
#include "explain/site/site.hpp"
#include "explain/testing/caching_allocator.hpp"
#include "explain/testing/recording.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

namespace vram::explain {
namespace {

using testing::CachingAllocator;
using testing::Recording;

constexpr uint64_t kStateBase = uint64_t{1} << 40;

// A device with all that states are made from.
struct Device {
  explicit Device(Recording recording) : Device(std::move(recording.trace())) {}
  explicit Device(trace::Trace made)
      : trace(std::move(made)),
        history(replay_history(trace, trace.devices[0])),
        clock(trace, trace.devices[0]),
        curve(draw_curve(trace, trace.devices[0], history, clock, 10)),
        scopes(build_scopes(trace, trace.devices[0])),
        names(find_names(trace, trace.devices[0], history)) {}

  [[nodiscard]] Sources sources() const {
    return {trace, trace.devices[0], history, clock, curve, scopes, names};
  }
  [[nodiscard]] State after(int64_t event) const {
    return states_after(sources(), std::vector<int64_t>{event})[0];
  }

  trace::Trace trace;
  History history;
  EventClock clock;
  Curve curve;
  Scopes scopes;
  Names names;
};

const Breakdown& by(const State& state, Dimension dimension) {
  return *std::find_if(state.breakdowns.begin(), state.breakdowns.end(),
                       [&](const Breakdown& b) { return b.by == dimension; });
}

std::vector<std::string> names(const Breakdown& breakdown) {
  std::vector<std::string> result;
  for (const Holder& holder : breakdown.holders) result.push_back(holder.name);
  return result;
}

// Frames that share long texts: a small file.
TEST(State, LongNamesThatHoldersShareAreLimited) {
  Recording recording;
  recording.segment(kStateBase, kGiB);
  trace::Tables& tables = recording.trace().tables;
  const trace::StringId text = tables.strings.intern(std::string(8 << 10, 'x'));
  for (uint32_t i = 0; i < 4000; ++i) {
    recording.alloc(kStateBase + i * 4096, 4096);
    const trace::FrameId frame = tables.frames.intern({.function = text, .file = text, .line = i});
    recording.trace().events.back().stack = tables.stacks.intern({&frame, 1});
  }
  recording.trace().has_stacks = true;
  const State state = Device(std::move(recording)).after(4000);
  for (const Dimension dimension : {Dimension::kStack, Dimension::kUserFrame}) {
    uint64_t bytes = 0;
    for (const std::string& name : names(by(state, dimension))) bytes += name.size();
    EXPECT_GT(bytes, kMaxNamesBytes / 2);
    EXPECT_LT(bytes, kMaxNamesBytes + uint64_t{4000} * 80);
  }
}

TEST(Waste, TellsPendingRoundingReleasableAndStrandedApart) {
  Recording recording;
  recording.segment(kStateBase, 20 * kMiB).alloc(kStateBase, 4 * kMiB - 100);
  recording.alloc(kStateBase + 4 * kMiB, 3 * kMiB).request(kStateBase + 4 * kMiB, 3 * kMiB);
  recording.segment(kStateBase + 64 * kMiB, 2 * kMiB);
  const State state = Device(std::move(recording)).after(4);
  EXPECT_EQ(state.waste.pending_bytes, 3 * kMiB);
  EXPECT_EQ(state.waste.rounding_bytes, 100u);
  EXPECT_EQ(state.waste.releasable_bytes, 2 * kMiB);
  EXPECT_EQ(state.waste.stranded_bytes, 13 * kMiB);
  EXPECT_EQ(state.waste.hole_count, 1u);
  EXPECT_EQ(state.waste.largest_hole_bytes, 13 * kMiB);
  EXPECT_EQ(state.waste.largest_hole_domain, "requests over 1 MiB, default stream");
  EXPECT_EQ(state.segment_count, 2u);
  EXPECT_EQ(state.block_count, 2u);
}

TEST(Waste, TheSmallPoolServesNoMoreThanAMebibyte) {
  Recording recording;
  recording.segment(kStateBase, 2 * kMiB).alloc(kStateBase, 512);
  EXPECT_EQ(Device(std::move(recording)).after(1).waste.largest_hole_bytes, kMiB);
}

TEST(Waste, OfExpandableSegmentsWholeGranulesAreReleasable) {
  Recording recording;
  recording.map(kStateBase, 80 * kMiB).alloc(kStateBase, 30 * kMiB);
  const Waste waste = Device(std::move(recording)).after(1).waste;
  EXPECT_EQ(waste.releasable_bytes, 40 * kMiB);
  EXPECT_EQ(waste.stranded_bytes, 10 * kMiB);
}

TEST(Pinners, AreSitesWhoseBlocksAloneHoldASegment) {
  Recording recording;
  recording.segment(kStateBase, 20 * kMiB).alloc(kStateBase, 2 * kMiB);
  recording.segment(kStateBase + 64 * kMiB, 20 * kMiB).alloc(kStateBase + 64 * kMiB, 2 * kMiB);
  recording.segment(kStateBase + 128 * kMiB, 20 * kMiB).alloc(kStateBase + 128 * kMiB, 2 * kMiB);
  recording.alloc(kStateBase + 130 * kMiB, 3 * kMiB);  // two sites: none of them alone
  const State state = Device(std::move(recording)).after(6);
  ASSERT_EQ(state.pinners.size(), 1u);
  EXPECT_EQ(state.pinners[0].name, "2 MiB blocks");
  EXPECT_EQ(state.pinners[0].segment_count, 2u);
  EXPECT_EQ(state.pinners[0].pinned_bytes, 4 * kMiB);
  EXPECT_EQ(state.pinners[0].stranded_bytes, 36 * kMiB);
}

TEST(Ooms, AreAllCountedWhereAFewAreExplained) {
  Recording recording;
  recording.segment(kStateBase, 20 * kMiB).alloc(kStateBase, 12 * kMiB);
  for (size_t i = 0; i < kMaxOoms + 100; ++i)
    recording.add(trace::EventKind::kOom, 7 * kMiB, 64 * kMiB);
  const Device device(std::move(recording));
  EXPECT_EQ(find_ooms(device.sources()).size(), kMaxOoms);
  EXPECT_EQ(oom_events(device.trace.events).size(), kMaxOoms + 100);
}

// Of expandable segments, whole granules go back without anybody being freed: they are not pinned.
TEST(Pinners, StrandNoMoreThanTheWasteHas) {
  Recording recording;
  recording.map(kStateBase, 80 * kMiB).alloc(kStateBase + 20 * kMiB, 30 * kMiB);
  recording.end_segment(kStateBase, {{20 * kMiB}, {30 * kMiB, 30 * kMiB}, {30 * kMiB}}, true);
  const State state = Device(std::move(recording)).after(1);
  EXPECT_EQ(state.waste.releasable_bytes, 40 * kMiB);
  EXPECT_EQ(state.waste.stranded_bytes, 10 * kMiB);
  ASSERT_EQ(state.pinners.size(), 1u);
  EXPECT_EQ(state.pinners[0].stranded_bytes, 10 * kMiB);
}

// A CUDA graph writes into the free blocks of its pool whenever it runs.
TEST(Waste, WhatIsFreeInPrivatePoolsIsToldApart) {
  Recording recording;
  const trace::PoolId pool = recording.trace().tables.pools.intern({1, 0});
  recording.segment(kStateBase, 40 * kMiB);
  recording.trace().events.back().pool = pool;
  recording.alloc(kStateBase, 4 * kMiB);
  recording.segment(kStateBase + 64 * kMiB, 20 * kMiB).alloc(kStateBase + 64 * kMiB, 15 * kMiB);
  const State state = Device(std::move(recording)).after(3);
  EXPECT_EQ(state.waste.private_pool_bytes, 36 * kMiB);
  EXPECT_EQ(state.waste.stranded_bytes, 5 * kMiB);
  EXPECT_EQ(state.waste.hole_count, 1u);
  EXPECT_EQ(state.waste.largest_hole_bytes, 5 * kMiB);
  ASSERT_EQ(state.pinners.size(), 1u);
  EXPECT_EQ(state.pinners[0].name, "15 MiB blocks");
}

TEST(Breakdown, ShowsBlocksFromBeforeTheRecordingAsSuch) {
  Recording recording;
  recording.alloc(kStateBase + 8 * kMiB, 2 * kMiB).free(kStateBase, 4 * kMiB);
  recording.end_segment(kStateBase,
                        {{4 * kMiB}, {4 * kMiB, 4 * kMiB}, {2 * kMiB, 2 * kMiB}, {10 * kMiB}});
  const State state = Device(std::move(recording)).after(0);
  for (const Dimension dimension :
       {Dimension::kStack, Dimension::kUserFrame, Dimension::kScope, Dimension::kAge}) {
    if (dimension == Dimension::kUserFrame) continue;  // size classes here: no stacks
    const Breakdown& breakdown = by(state, dimension);
    ASSERT_EQ(breakdown.holders.size(), 2u);
    EXPECT_EQ(breakdown.holders[0].name, "before recording");
    EXPECT_TRUE(breakdown.holders[0].before_recording);
    EXPECT_EQ(breakdown.holders[0].block_bytes, 8 * kMiB);
    EXPECT_LE(breakdown.holders[0].oldest_ns, 0);
    EXPECT_FALSE(breakdown.holders[1].before_recording);
  }
  EXPECT_THAT(names(by(state, Dimension::kSize)),
              ::testing::ElementsAre("4 MiB blocks", "2 MiB blocks"));
}

TEST(Breakdown, NamesTheUsersFrameScopeStreamAndPool) {
  Recording recording;
  trace::Tables& tables = recording.trace().tables;
  const auto frame = [&](const char* function, const char* file, uint32_t line) {
    return tables.frames.intern(
        {tables.strings.intern(function), tables.strings.intern(file), line, 0, 0});
  };
  const std::vector<trace::FrameId> stack = {
      frame("forward", "/usr/lib/python3/site-packages/torch/nn/modules/linear.py", 10),
      frame("loss_fn", "/home/me/train.py", 42)};
  recording.trace().has_stacks = true;
  const auto stream = tables.streams.intern(0x55);
  recording.segment(kStateBase, 20 * kMiB).wait_ns(10'000);
  recording.add(trace::EventKind::kAlloc, kStateBase, 2 * kMiB, stream);
  trace::Event& event = recording.trace().events.back();
  event.stack = tables.stacks.intern(stack);
  event.pool = tables.pools.intern({3, 0});
  recording.trace().annotations = {
      {event.time_ns - 5, tables.strings.intern("forward"), 0, true, {}},
      {event.time_ns + 5, tables.strings.intern("forward"), 0, false, {}}};
  recording.wait_ns(10'000).alloc(kStateBase + 2 * kMiB, 2 * kMiB);
  const State state = Device(std::move(recording)).after(2);
  EXPECT_THAT(names(by(state, Dimension::kUserFrame)),
              ::testing::UnorderedElementsAre("train.py:42 loss_fn", "no stack recorded"));
  EXPECT_THAT(names(by(state, Dimension::kScope)),
              ::testing::UnorderedElementsAre("forward", "outside all scopes"));
  EXPECT_THAT(names(by(state, Dimension::kStream)),
              ::testing::UnorderedElementsAre("stream 0x55", "default stream"));
  EXPECT_THAT(names(by(state, Dimension::kPool)),
              ::testing::UnorderedElementsAre("private pool (3, 0)", "default pool"));
  const Breakdown& stacks = by(state, Dimension::kStack);
  const auto with_stack = std::find_if(stacks.holders.begin(), stacks.holders.end(),
                                       [](const Holder& h) { return !h.stack.empty(); });
  ASSERT_NE(with_stack, stacks.holders.end());
  EXPECT_EQ(with_stack->stack.size(), 2u);
}

TEST(Ooms, TellWhatWasAskedAndWhoHeldTheRest) {
  Recording recording;
  recording.segment(kStateBase, 20 * kMiB).alloc(kStateBase, 12 * kMiB);
  recording.add(trace::EventKind::kOom, 7 * kMiB, 64 * kMiB);  // address: free on the device
  const Device device(std::move(recording));
  const std::vector<Oom> ooms = find_ooms(device.sources());
  ASSERT_EQ(ooms.size(), 1u);
  EXPECT_EQ(ooms[0].requested_bytes, 64 * kMiB);
  EXPECT_EQ(ooms[0].device_free_bytes, 7 * kMiB);
  EXPECT_EQ(ooms[0].largest_hole_bytes, 8 * kMiB);
  EXPECT_EQ(ooms[0].moment.event, 2);
  EXPECT_EQ(by(ooms[0].state, Dimension::kSize).holders[0].name, "12 MiB blocks");
}

// At any moment of a random program: the parts sum to the whole, in every dimension.
TEST(State, PartsSumToTheWholeAtRandomMoments) {
  std::mt19937_64 random(3);
  for (const bool expandable : {false, true}) {
    CachingAllocator allocator({}, expandable);
    trace::Trace trace;
    trace.has_time = true;
    std::vector<uint64_t> live;
    for (int i = 0; i < 6000; ++i) {
      if (i == 1000) allocator.record_into(&trace);
      if (random() % 100 < 52 || live.empty()) {
        live.push_back(allocator.allocate(1 + random() % (random() % 3 == 0 ? 30 * kMiB : 90'000)));
        continue;
      }
      std::swap(live[random() % live.size()], live.back());
      allocator.free(live.back(), random() % 5 == 0);  // some stay pending for good
      live.pop_back();
      if (random() % 300 == 0) allocator.empty_cache();
    }
    trace.devices.emplace_back().event_count = trace.events.size();
    allocator.write_end_state(trace.devices[0]);
    const Device device(std::move(trace));
    ASSERT_EQ(device.history.verdict.confidence, Confidence::kExact);
    std::vector<int64_t> events = {kBeforeFirstEvent};
    for (int i = 0; i < 50; ++i)
      events.push_back(static_cast<int64_t>(random() % device.trace.events.size()));
    for (const State& state : states_after(device.sources(), events)) {
      const Totals& totals = state.moment.totals;
      const Waste& waste = state.waste;
      uint64_t requested_of_allocated = 0;
      const auto all = device.trace.events_of(device.trace.devices[0]);
      for (uint32_t id = 0; id < device.history.lifetimes.size(); ++id) {
        const Lifetime& l = device.history.lifetimes[id];
        const bool was_pending =
            state.moment.event == kBeforeFirstEvent && is_pending_before(all, device.history, id);
        if (device.history.allocated_at(l, state.moment.event) && !was_pending)
          requested_of_allocated += l.requested_bytes;
      }
      EXPECT_EQ(totals.reserved_bytes, requested_of_allocated + waste.rounding_bytes +
                                           waste.pending_bytes + waste.releasable_bytes +
                                           waste.stranded_bytes + waste.private_pool_bytes);
      EXPECT_EQ(waste.pending_bytes, totals.active_bytes - totals.allocated_bytes);
      for (const Breakdown& breakdown : state.breakdowns) {
        uint64_t requested = 0;
        uint64_t bytes = 0;
        uint64_t count = 0;
        for (const Holder& holder : breakdown.holders) {
          requested += holder.requested_bytes;
          bytes += holder.block_bytes;
          count += holder.count;
        }
        EXPECT_EQ(requested, totals.requested_bytes);
        EXPECT_EQ(bytes, totals.active_bytes);
        EXPECT_EQ(count, state.block_count);
      }
    }
  }
}

}  // namespace
}  // namespace vram::explain
