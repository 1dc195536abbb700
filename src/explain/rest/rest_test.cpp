#include "explain/rest/rest.hpp"

#include "base/bytes.hpp"
#include "explain/rest/marks.hpp"
#include "explain/rest/pinned.hpp"
#include "trace/figures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vram::explain {
namespace {

namespace figures = trace::figures;

class RestOfDevice : public ::testing::Test {
 protected:
  void figure(int64_t time_ns, std::string_view name, uint64_t value, uint32_t device = 0) {
    trace_.figures.push_back({.time_ns = time_ns,
                              .value = value,
                              .name = trace_.tables.strings.intern(name),
                              .device = device});
  }
  void segment(int64_t time_ns, uint64_t bytes, trace::EventKind kind) {
    trace_.events.push_back(
        {.time_ns = time_ns, .address = 1 << 21, .size_bytes = bytes, .kind = kind});
  }
  std::optional<Rest> rest(uint64_t initial_bytes = 0) {
    trace_.has_time = true;
    trace_.devices.clear();
    trace_.devices.emplace_back().event_count = trace_.events.size();
    auto found =
        find_rest(trace_, trace_.devices[0], EventClock(trace_, trace_.devices[0]), initial_bytes);
    if (found) {
      int64_t sum = found->unnamed_bytes;
      for (const RestItem& item : found->items) sum += item.bytes;
      EXPECT_EQ(sum, static_cast<int64_t>(found->used_bytes)) << "adds up to the byte";
    }
    return found;
  }
  static std::optional<int64_t> bytes_of(const Rest& rest, RestKind kind) {
    const auto found = std::ranges::find(rest.items, kind, &RestItem::kind);
    return found == rest.items.end() ? std::nullopt : std::optional(found->bytes);
  }

  trace::Trace trace_;
};

constexpr int64_t kSecond = 1'000'000'000;

TEST_F(RestOfDevice, NoSamplesNoTable) {
  segment(kSecond, 20, trace::EventKind::kSegmentAlloc);
  figure(kSecond, "growth.NCCL", 5);
  EXPECT_FALSE(rest());
  EXPECT_FALSE(usable_bytes(trace_, trace_.devices[0]));
}

TEST_F(RestOfDevice, NamesWhatTheCallsOfTheDriverShow) {
  segment(kSecond, 100, trace::EventKind::kSegmentAlloc);
  figure(kSecond + 1, figures::kTotal, 10'000);
  figure(kSecond + 1, figures::kDriver, 600);
  figure(kSecond + 1, figures::kUsedBefore, 1'000);
  figure(kSecond + 1, figures::kProcess, 550);
  figure(kSecond + 1, figures::kOthers, 1'000);
  figure(kSecond + 1, figures::kCallsObserved, 1);
  figure(kSecond + 1, figures::kUsed, 1'551);
  figure(2 * kSecond, "library.libnccl.so.2", 300);
  figure(2 * kSecond, "library.libcublasLt.so.13", 40);
  figure(2 * kSecond, "growth.NCCL of default_pg", 310);  // the same once more
  segment(3 * kSecond, 1'000, trace::EventKind::kSegmentAlloc);
  figure(4 * kSecond, figures::kProcess, 1'900);
  figure(4 * kSecond, figures::kUsed, 2'901);
  figure(5 * kSecond, figures::kUsed, 2'000);
  const auto found = rest();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->time_ns, 3 * kSecond);
  EXPECT_EQ(found->sample_count, 3u);
  EXPECT_EQ(found->used_bytes, 3'501u);
  EXPECT_EQ(bytes_of(*found, RestKind::kAllocator), 1'100);
  EXPECT_EQ(bytes_of(*found, RestKind::kDriver), 600);
  EXPECT_EQ(bytes_of(*found, RestKind::kOthers), 1'000);
  EXPECT_EQ(bytes_of(*found, RestKind::kContext), 450);
  EXPECT_EQ(bytes_of(*found, RestKind::kLibrary), 300);
  EXPECT_EQ(bytes_of(*found, RestKind::kModules), 10);
  EXPECT_FALSE(bytes_of(*found, RestKind::kGrowth)) << "what libraries allocated is counted once";
  EXPECT_EQ(found->unnamed_bytes, 1);
  EXPECT_EQ(usable_bytes(trace_, trace_.devices[0]), 9'400u);
}

TEST_F(RestOfDevice, CallsOfTheSharedRuntimeBeyondTheAllocatorAreOthers) {
  segment(kSecond, 100, trace::EventKind::kSegmentAlloc);
  figure(kSecond + 1, figures::kCallsObserved, 1);
  figure(kSecond + 1, figures::kAllocatorCalls, 130);
  figure(kSecond + 1, figures::kUsedBefore, 0);
  figure(2 * kSecond, figures::kUsed, 200);
  const auto found = rest();
  ASSERT_TRUE(found);
  EXPECT_EQ(bytes_of(*found, RestKind::kLibrary), 30);
  EXPECT_EQ(bytes_of(*found, RestKind::kContext), 70);
  EXPECT_EQ(found->unnamed_bytes, 0);
}

TEST_F(RestOfDevice, WithoutTheCallsWhatWasLoadedLaterIsUnnamed) {
  segment(kSecond, 100, trace::EventKind::kSegmentAlloc);
  figure(kSecond + 1, figures::kUsedBefore, 70);
  figure(kSecond + 1, figures::kUsed, 570);
  figure(2 * kSecond, "growth.CUDA graphs", 30);
  figure(3 * kSecond, figures::kUsed, 650);
  const auto found = rest();
  ASSERT_TRUE(found);
  EXPECT_EQ(bytes_of(*found, RestKind::kOthers), 70) << "as it was before the context";
  EXPECT_EQ(bytes_of(*found, RestKind::kContext), 400);
  EXPECT_EQ(bytes_of(*found, RestKind::kGrowth), 30);
  EXPECT_FALSE(bytes_of(*found, RestKind::kModules));
  EXPECT_EQ(found->unnamed_bytes, 50);
  EXPECT_THAT(found->not_observed, ::testing::Contains("modules and kernel stacks"));
  EXPECT_THAT(found->not_observed, ::testing::Not(::testing::Contains("other processes")));
}

TEST_F(RestOfDevice, NcclsOwnCountReplacesTheGrowthOfItsGroup) {
  segment(kSecond - 1, 100, trace::EventKind::kSegmentAlloc);
  figure(kSecond, figures::kUsedBefore, 0);
  figure(kSecond, figures::kUsed, 400);
  figure(2 * kSecond, "growth.NCCL, group tp", 90);
  figure(2 * kSecond, "growth.NCCL, group dp", 50);
  figure(2 * kSecond, "nccl.tp", 80);
  figure(3 * kSecond, figures::kUsed, 650);
  const auto found = rest();
  ASSERT_TRUE(found);
  EXPECT_EQ(bytes_of(*found, RestKind::kLibrary), 80);
  EXPECT_EQ(bytes_of(*found, RestKind::kGrowth), 50);
  EXPECT_EQ(found->unnamed_bytes, 650 - 400 - 80 - 50);
}

// While the driver creates it, a context grows.
TEST_F(RestOfDevice, TheContextIsThatOfTheFirstSampleInUse) {
  figure(kSecond, figures::kUsedBefore, 0);
  figure(kSecond, figures::kUsed, 10);
  segment(kSecond + 1, 100, trace::EventKind::kSegmentAlloc);
  figure(kSecond + 2, figures::kUsed, 500);
  const auto found = rest();
  ASSERT_TRUE(found);
  EXPECT_EQ(bytes_of(*found, RestKind::kContext), 400);
}

TEST_F(RestOfDevice, AnUnknownShareIsNotGuessed) {
  figure(2 * kSecond, figures::kUsed, 5'000);
  segment(kSecond, 100, trace::EventKind::kSegmentAlloc);
  const auto found = rest(1'000);
  ASSERT_TRUE(found);
  EXPECT_EQ(bytes_of(*found, RestKind::kAllocator), 1'100);
  EXPECT_EQ(found->items.size(), 1u);
  EXPECT_EQ(found->unnamed_bytes, 3'900);
  EXPECT_THAT(found->not_observed,
              ::testing::ElementsAre("other processes", "this process's share of the rest"));
}

TEST_F(RestOfDevice, AFigureThatIsNoLongerKnownIsNotUsed) {
  figure(kSecond, figures::kProcess, 500);
  figure(kSecond, figures::kOthers, 500);
  figure(kSecond, figures::kUsed, 1'000);
  figure(2 * kSecond, figures::kOthers, figures::kUnknown);
  figure(2 * kSecond, figures::kUsed, 3'000);
  figure(3 * kSecond, figures::kUsed, 9'000, 1);  // another device
  const auto found = rest();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->used_bytes, 3'000u);
  EXPECT_FALSE(bytes_of(*found, RestKind::kOthers));
}

// The driver may have been read before the segment's event was.
TEST_F(RestOfDevice, PrefersASampleWithoutASegmentEventJustBefore) {
  segment(kSecond, 100, trace::EventKind::kSegmentAlloc);
  figure(2 * kSecond, figures::kUsed, 600);
  segment(3 * kSecond, 50, trace::EventKind::kSegmentAlloc);
  figure(3 * kSecond + 1, figures::kUsed, 900);
  const auto found = rest();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->used_bytes, 600u);
}

TEST_F(RestOfDevice, HostileFiguresAddUpToo) {
  segment(INT64_MIN, UINT64_MAX, trace::EventKind::kSegmentAlloc);
  segment(INT64_MAX, UINT64_MAX, trace::EventKind::kSegmentAlloc);
  for (int i = 0; i < 100; ++i) {
    figure(i % 2 == 0 ? INT64_MIN : INT64_MAX, "library.x" + std::to_string(i), UINT64_MAX - 1);
    figure(INT64_MAX - i, i % 3 == 0 ? figures::kProcess : figures::kDriver, UINT64_MAX - 7);
    figure(INT64_MAX, figures::kUsed, UINT64_MAX - static_cast<uint64_t>(i) - 1);
  }
  figure(INT64_MAX, figures::kCallsObserved, 1);
  figure(INT64_MAX, figures::kUsed, UINT64_MAX - 1);
  const auto found = rest();
  ASSERT_TRUE(found);
  EXPECT_LE(found->items.size(), 100u);
}

class PinnedHost : public RestOfDevice {
 protected:
  void reading(uint64_t mib, uint64_t active_mib) {
    time_ns_ += kSecond;
    figure(time_ns_, figures::kPinned, mib << 20, trace::kNoDevice);
    figure(time_ns_, figures::kPinnedActive, active_mib << 20, trace::kNoDevice);
  }
  std::optional<Finding> find() {
    trace_.devices.resize(2);
    trace_.devices[1].ordinal = 1;
    EXPECT_FALSE(find_pinned_host(trace_, trace_.devices[1])) << "said once";
    return find_pinned_host(trace_, trace_.devices[0]);
  }
  int64_t time_ns_ = 0;
};

TEST_F(PinnedHost, ThatGrowsWithoutUseIsFound) {
  for (const uint64_t mib : {64, 80, 96, 112, 128, 160}) reading(mib, 64);
  const auto found = find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, FindingKind::kPinnedHost);
  EXPECT_EQ(found->bytes, 96 * kMiB);
}

TEST_F(PinnedHost, ThatIsUsedSometimesIsNot) {
  for (const uint64_t mib : {64, 80, 96, 112, 128, 160}) reading(mib, mib == 128 ? 100 : 10);
  EXPECT_FALSE(find());
}

TEST_F(PinnedHost, ThatGrewAtTheBeginningIsNot) {
  for (const uint64_t mib : {64, 80, 160, 160, 160, 160}) reading(mib, 10);
  EXPECT_FALSE(find());
}

TEST_F(PinnedHost, OfFewReadingsIsNot) {
  for (const uint64_t mib : {64, 80, 960}) reading(mib, 1);
  EXPECT_FALSE(find());
}

TEST(MarksOfSteps, AreSummedByNameAndCountedByStep) {
  trace::Trace trace;
  trace.devices.emplace_back();
  const auto reduce = trace.tables.strings.intern("all_reduce");
  const auto gather = trace.tables.strings.intern("all_gather");
  const auto group = trace.tables.strings.intern("default_pg");
  const auto mark = [&](int64_t time_ns, trace::StringId name, uint64_t bytes, uint32_t device) {
    trace.marks.push_back({.time_ns = 1'000 + time_ns,
                           .duration_ns = 3,
                           .size_bytes = bytes,
                           .name = name,
                           .group = group,
                           .device = device,
                           .kind = trace::MarkKind::kCollective});
  };
  Steps steps;
  steps.warmup_count = 1;
  for (int64_t i = 0; i < 4; ++i)
    steps.steps.push_back({.name = "", .begin_ns = i * 100, .end_ns = i * 100 + 99});
  mark(5, gather, 1'000, 0);  // the warm-up
  for (int64_t step = 1; step < 4; ++step) {
    mark(step * 100 + 10, reduce, 400, trace::kNoDevice);
    mark(step * 100, reduce, 500, 0);
  }
  mark(350, gather, 7, 0);
  mark(350, gather, 7, 1);  // another device's
  mark(999, gather, 1, 0);  // after the steps
  const Marks found = find_marks(trace, trace.devices[0], steps, 1'000);
  ASSERT_EQ(found.totals.size(), 2u);
  EXPECT_EQ(found.count, 9u);
  EXPECT_EQ(found.totals[0].name, "all_reduce");
  EXPECT_EQ(found.totals[0].group, "default_pg");
  EXPECT_EQ(found.totals[0].count, 6u);
  EXPECT_EQ(found.totals[0].bytes, 2'700u);
  EXPECT_EQ(found.totals[0].duration_ns, 18);
  EXPECT_EQ(found.totals[0].step_count, 2u);
  EXPECT_EQ(found.totals[0].step_bytes, 900u);
  EXPECT_EQ(found.totals[1].step_count, 0u) << "most steps have none";
  ASSERT_EQ(found.lines.size(), 9u);
  EXPECT_EQ(found.lines[1].time_ns, 100);
  EXPECT_EQ(found.lines[1].bytes, 500u);
  EXPECT_EQ(found.lines[1].step, 1u);
  EXPECT_FALSE(found.lines[8].step);
}

TEST(MarksOfSteps, WithoutStepsThereAreNoMedians) {
  trace::Trace trace;
  trace.devices.emplace_back();
  trace.marks.push_back({.time_ns = 5, .size_bytes = 9});
  const Marks found = find_marks(trace, trace.devices[0], {}, 0);
  ASSERT_EQ(found.totals.size(), 1u);
  EXPECT_FALSE(found.totals[0].step_count);
}

}  // namespace
}  // namespace vram::explain
