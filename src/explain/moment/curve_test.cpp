#include "explain/moment/curve.hpp"

#include "base/bytes.hpp"
#include "explain/testing/recording.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

using testing::Recording;

constexpr uint64_t kCurveBase = uint64_t{1} << 40;

struct Drawn {
  explicit Drawn(Recording recording, uint32_t slices = 4)
      : made(std::move(recording)),
        history(replay_history(made.trace(), made.device())),
        clock(made.trace(), made.device()),
        curve(draw_curve(made.trace(), made.device(), history, clock, slices)) {}
  [[nodiscard]] Moment after(int64_t event) {
    return moment_after(made.trace(), made.device(), history, clock, curve, event);
  }
  Recording made;
  History history;
  EventClock clock;
  Curve curve;
};

TEST(Curve, PendingBlocksStayActiveUntilTheirFreeCompletes) {
  Recording recording;
  recording.segment(kCurveBase, 20 * kMiB).alloc(kCurveBase, 4 * kMiB - 100);
  recording.request(kCurveBase, 4 * kMiB - 100).alloc(kCurveBase + 4 * kMiB, 2 * kMiB);
  recording.complete(kCurveBase, 4 * kMiB - 100);
  Drawn drawn(std::move(recording));
  EXPECT_EQ(drawn.after(1).totals, (Totals{4 * kMiB - 100, 4 * kMiB, 4 * kMiB, 20 * kMiB}));
  EXPECT_EQ(drawn.after(2).totals, (Totals{4 * kMiB - 100, 0, 4 * kMiB, 20 * kMiB}));
  EXPECT_EQ(drawn.after(3).totals, (Totals{6 * kMiB - 100, 2 * kMiB, 6 * kMiB, 20 * kMiB}));
  EXPECT_EQ(drawn.after(4).totals, (Totals{2 * kMiB, 2 * kMiB, 2 * kMiB, 20 * kMiB}));
  EXPECT_EQ(drawn.curve.peak.active.event, 3);
  EXPECT_EQ(drawn.curve.peak.allocated.event, 1);
  EXPECT_EQ(drawn.curve.peak.requested.totals.requested_bytes, 6 * kMiB - 100);
}

TEST(Curve, ThePeakIsTheFirstOfEqualMomentsAndKnowsItsTime) {
  Recording recording;
  recording.segment(kCurveBase, 2 * kMiB);
  for (int i = 0; i < 3; ++i) recording.alloc(kCurveBase, 512).free(kCurveBase, 512).wait_ns(5000);
  const Drawn drawn(std::move(recording));
  EXPECT_EQ(drawn.curve.peak.requested.event, 1);
  EXPECT_EQ(drawn.curve.peak.requested.time_ns, 1000);
}

// A segment is reserved in the middle of a request: before its end it would count as unused.
TEST(Curve, TheReservedPeakStandsWhereTheRequestHasItsMemory) {
  Recording recording;
  recording.segment(kCurveBase, 24 * kMiB).alloc(kCurveBase, 24 * kMiB);
  recording.segment(kCurveBase + 64 * kMiB, 30 * kMiB).alloc(kCurveBase + 64 * kMiB, 30 * kMiB);
  recording.free(kCurveBase, 24 * kMiB);
  const Drawn drawn(std::move(recording));
  EXPECT_EQ(drawn.curve.peak.reserved.event, 3);
  EXPECT_EQ(drawn.curve.peak.reserved.totals.allocated_bytes, 54 * kMiB);
  EXPECT_EQ(drawn.curve.peak.reserved.totals.reserved_bytes, 54 * kMiB);
}

// A recording that begins with a free: more was alive before its first event than ever after.
TEST(Curve, ThePeakMayStandBeforeTheFirstEvent) {
  Recording recording;
  recording.free(kCurveBase, 8 * kMiB).wait_ns(5000).alloc(kCurveBase, 4 * kMiB);
  recording.end_segment(kCurveBase, {{4 * kMiB, 4 * kMiB}, {16 * kMiB}});
  Drawn drawn(std::move(recording));
  const Peak& peak = drawn.curve.peak;
  for (const Moment& moment : {peak.requested, peak.allocated, peak.active, peak.reserved}) {
    EXPECT_EQ(moment.event, kBeforeFirstEvent);
    EXPECT_EQ(moment.time_ns, 0);
    EXPECT_EQ(moment.totals, (Totals{8 * kMiB, 8 * kMiB, 8 * kMiB, 20 * kMiB}));
  }
  EXPECT_EQ(drawn.after(kBeforeFirstEvent).totals, peak.requested.totals);
  EXPECT_EQ(drawn.curve.timeline.front().largest.allocated_bytes, 8 * kMiB);
}

// Reserved memory reaches its peak before most of it is used, and stays there.
TEST(Curve, TheFullestMomentIsThatOfMostLiveMemoryAtTheReservedPeak) {
  Recording recording;
  recording.segment(kCurveBase, 20 * kMiB).alloc(kCurveBase, 4 * kMiB).free(kCurveBase, 4 * kMiB);
  recording.alloc(kCurveBase, 18 * kMiB).free(kCurveBase, 18 * kMiB).alloc(kCurveBase, 18 * kMiB);
  recording.free(kCurveBase, 18 * kMiB).segment_free(kCurveBase, 20 * kMiB);
  const Drawn drawn(std::move(recording));
  EXPECT_EQ(drawn.curve.peak.reserved.event, 1);
  EXPECT_EQ(drawn.curve.fullest.event, 4);
  EXPECT_EQ(drawn.curve.fullest.totals.reserved_bytes, 20 * kMiB);
  EXPECT_EQ(drawn.curve.fullest.totals.requested_bytes, 18 * kMiB);
}

TEST(Curve, SlicesWithoutEventsCarryTheLastTotalsOn) {
  Recording recording;
  recording.segment(kCurveBase, 20 * kMiB)
      .alloc(kCurveBase, 4 * kMiB)
      .alloc(kCurveBase + 4 * kMiB, 4 * kMiB);
  recording.free(kCurveBase + 4 * kMiB, 4 * kMiB).wait_ns(1'000'000).free(kCurveBase, 4 * kMiB);
  const Drawn drawn(std::move(recording), 10);
  const auto& timeline = drawn.curve.timeline;
  ASSERT_EQ(timeline.size(), 10u);
  EXPECT_EQ(timeline[0].begin_ns, 0);
  EXPECT_EQ(timeline[0].largest.requested_bytes, 8 * kMiB);
  for (size_t i = 1; i < 10; ++i) {
    EXPECT_EQ(timeline[i].largest.requested_bytes, 4 * kMiB) << i;
    EXPECT_EQ(timeline[i].largest.reserved_bytes, 20 * kMiB) << i;
    EXPECT_GT(timeline[i].begin_ns, timeline[i - 1].begin_ns);
  }
}

TEST(Curve, TheTimelineReachesEveryPeakAlsoWhenTheClockStepsBack) {
  Recording recording;
  recording.segment(kCurveBase, 20 * kMiB).wait_ns(50'000).alloc(kCurveBase, 4 * kMiB);
  recording.wait_ns(-40'000).alloc(kCurveBase + 4 * kMiB, 8 * kMiB);
  recording.wait_ns(90'000).free(kCurveBase, 4 * kMiB);
  const Drawn drawn(std::move(recording), 7);
  uint64_t largest = 0;
  for (const TimelineSlice& slice : drawn.curve.timeline) {
    largest = std::max(largest, slice.largest.active_bytes);
  }
  EXPECT_EQ(largest, drawn.curve.peak.active.totals.active_bytes);
}

TEST(Curve, WithoutEventsTheEndStateIsThePeak) {
  Recording recording;
  recording.end_segment(kCurveBase, {{4 * kMiB, 4 * kMiB - 1}, {16 * kMiB}});
  const Drawn drawn(std::move(recording));
  EXPECT_EQ(drawn.curve.peak.requested.totals,
            (Totals{4 * kMiB - 1, 4 * kMiB, 4 * kMiB, 20 * kMiB}));
  ASSERT_EQ(drawn.curve.timeline.size(), 1u);
  EXPECT_EQ(drawn.curve.timeline[0].largest.reserved_bytes, 20 * kMiB);
}

TEST(Curve, TotalsAtAnyEventEqualThoseOfTheWholeWalk) {
  Recording recording;
  recording.segment(kCurveBase, 2 * kMiB);
  for (uint64_t i = 0; i < 5000; ++i) {
    recording.alloc(kCurveBase + i % 7 * 512, 1 + i % 512);
    recording.free(kCurveBase + i % 7 * 512, 1 + i % 512);
  }
  Drawn drawn(std::move(recording));
  TotalsWalker walker(drawn.made.trace().events_of(drawn.made.device()), drawn.history);
  while (!walker.at_end()) {
    walker.step();
    const auto event = static_cast<int64_t>(walker.next_event()) - 1;
    if (event % 613 != 0) continue;
    EXPECT_EQ(drawn.after(event).totals, walker.totals()) << event;
  }
}

TEST(EventClock, AMomentIsTheLastEventBeforeALaterOne) {
  Recording recording;
  recording.segment(kCurveBase, 2 * kMiB).wait_ns(9000).alloc(kCurveBase, 512);
  const EventClock clock(recording.trace(), recording.device());
  EXPECT_EQ(clock.event_at(-1), std::nullopt);
  EXPECT_EQ(clock.event_at(0), 0u);
  EXPECT_EQ(clock.event_at(9'999), 0u);
  EXPECT_EQ(clock.event_at(10'000), 1u);
  recording.trace().has_time = false;
  const EventClock numbers(recording.trace(), recording.device());
  EXPECT_EQ(numbers.kind(), Clock::kEventIndex);
  EXPECT_EQ(numbers.event_at(1), 1u);
}

TEST(EventClock, TimesOfAnyFileRiseWithTheClock) {
  Recording recording;
  recording.segment(kCurveBase, 2 * kMiB).alloc(kCurveBase, 512).free(kCurveBase, 512);
  auto& events = recording.trace().events;
  events[0].time_ns = INT64_MIN;
  events[1].time_ns = 0;
  events[2].time_ns = events[3].time_ns = INT64_MAX;
  const EventClock clock(recording.trace(), recording.device());
  EXPECT_EQ(clock.time_ns(0), 0);
  EXPECT_EQ(clock.time_ns(1), kMaxDurationNs);
  EXPECT_EQ(clock.time_ns(3), kMaxDurationNs);
}

using testing::Recording;
using Points = std::vector<std::tuple<int64_t, uint64_t, uint64_t>>;  // time, allocated, reserved

constexpr uint64_t kBase = uint64_t{1} << 40;

Points points_of(const MemoryTimeline& timeline) {
  Points points;
  for (const TimelinePoint& point : timeline.points)
    points.emplace_back(point.time_ns, point.allocated_bytes, point.reserved_bytes);
  return points;
}

// An event each microsecond; a free that is completed later counts from its request.
TEST(MemoryTimeline, HasAPointForEachChange) {
  Recording recording;
  recording.segment(kBase, 20 * kMiB).alloc(kBase, 4 * kMiB).free(kBase, 4 * kMiB);
  recording.segment_free(kBase, 20 * kMiB);
  const MemoryTimeline timeline = timeline_of(recording.trace()).value();
  EXPECT_EQ(
      points_of(timeline),
      (Points{{0, 0, 20 * kMiB}, {1000, 4 * kMiB, 20 * kMiB}, {2000, 0, 20 * kMiB}, {4000, 0, 0}}));
  EXPECT_EQ(timeline.end_ns, 4000);
  EXPECT_TRUE(timeline.has_time);
  EXPECT_EQ(timeline.peak_requested_bytes, 4 * kMiB);
  EXPECT_EQ(timeline.memory_bytes, std::nullopt);
}

TEST(MemoryTimeline, WhatHappensAtOneTimeIsOnePoint) {
  Recording recording;
  recording.segment(kBase, 2 * kMiB).alloc(kBase, 512).wait_ns(-1000).alloc(kBase + 512, 512);
  EXPECT_EQ(points_of(timeline_of(recording.trace()).value()),
            (Points{{0, 0, 2 * kMiB}, {1000, 1024, 2 * kMiB}}));
}

// As --at does: an event shows once everything before it in the recording does.
TEST(MemoryTimeline, AClockThatStepsBackHoldsEventsUp) {
  Recording recording;
  recording.segment(kBase, 2 * kMiB).wait_ns(9000).alloc(kBase, 512);
  recording.wait_ns(-5000).alloc(kBase + 512, 512).wait_ns(9000).alloc(kBase + 1024, 512);
  EXPECT_EQ(points_of(timeline_of(recording.trace()).value()),
            (Points{{0, 0, 2 * kMiB}, {10'000, 1024, 2 * kMiB}, {16'000, 1536, 2 * kMiB}}));
}

TEST(MemoryTimeline, WithoutAClockTimesAreNumbersOfEvents) {
  Recording recording;
  recording.segment(kBase, 2 * kMiB).alloc(kBase, 512).alloc(kBase + 512, 512);
  recording.trace().has_time = false;
  const MemoryTimeline timeline = timeline_of(recording.trace()).value();
  EXPECT_FALSE(timeline.has_time);
  EXPECT_EQ(points_of(timeline),
            (Points{{0, 0, 2 * kMiB}, {1, 512, 2 * kMiB}, {2, 1024, 2 * kMiB}}));
}

TEST(MemoryTimeline, OfAStateWithoutEventsIsThatState) {
  Recording recording;
  recording.end_segment(kBase,
                        {{.size_bytes = kMiB, .requested_bytes = kMiB}, {.size_bytes = kMiB}});
  const MemoryTimeline timeline = timeline_of(recording.trace()).value();
  EXPECT_EQ(points_of(timeline), (Points{{0, kMiB, 2 * kMiB}}));
  EXPECT_EQ(timeline.end_ns, 0);
}

// Three devices: the GPU with the larger peak leads, though the host's memory has the largest.
TEST(MemoryTimeline, IsOfTheDeviceThatReportsLeadWith) {
  Recording recording;
  recording.segment(kBase, 2 * kMiB).alloc(kBase, 512);
  recording.segment(kBase, 4 * kMiB).alloc(kBase, 2 * kMiB);
  recording.segment(kBase, 8 * kMiB).alloc(kBase, 8 * kMiB);
  trace::Trace& trace = recording.trace();
  trace.devices.resize(3);
  for (uint32_t place = 0; place < 3; ++place) {
    trace.devices[place].ordinal = 3 + place;
    trace.devices[place].first_event = uint64_t{2} * place;
    trace.devices[place].event_count = 2;
  }
  trace.devices[2].kind = trace::DeviceKind::kHost;
  trace.about = {{"device.3.memory_bytes", "7"}, {"device.4.memory_bytes", "123456789"}};
  const MemoryTimeline timeline = timeline_of(trace).value();
  EXPECT_EQ(timeline.ordinal, 4u);
  EXPECT_EQ(timeline.memory_bytes, 123456789u);
  EXPECT_EQ(timeline.peak_requested_bytes, 2 * kMiB);
  EXPECT_EQ(timeline.points.back().allocated_bytes, 2 * kMiB);
  EXPECT_FALSE(timeline_of(trace::Trace{}).has_value());
}

}  // namespace
}  // namespace vram::explain
