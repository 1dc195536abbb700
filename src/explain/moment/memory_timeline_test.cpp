#include "explain/moment/memory_timeline.hpp"

#include "base/bytes.hpp"
#include "explain/testing/recording.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace vram::explain {
namespace {

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
