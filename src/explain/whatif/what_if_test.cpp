#include "explain/whatif/what_if.hpp"

#include "base/bytes.hpp"
#include "explain/explain.hpp"
#include "explain/findings/replayed.hpp"
#include "replay/replay.hpp"
#include "trace/open.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace vram::explain {
namespace {

using ::testing::HasSubstr;
using trace::EventKind;

// Events at addresses in MiB, as PyTorch's default allocator would record them.
class Recording {
 public:
  Recording() {
    trace_.has_time = true;
    trace_.tables.streams.intern(0);
  }
  void add(EventKind kind, uint64_t address_mib, uint64_t mib) {
    trace::Event event;
    event.kind = kind;
    event.address = kBase + address_mib * kMiB;
    event.size_bytes = mib * kMiB;
    event.time_ns = 1'000'000 * static_cast<int64_t>(trace_.events.size() + 1);
    trace_.events.push_back(event);
  }
  void segment(uint64_t at, uint64_t mib) {
    add(EventKind::kSegmentAlloc, at, mib);
    add(EventKind::kAlloc, at, mib);
  }
  void alloc(uint64_t at, uint64_t mib) { add(EventKind::kAlloc, at, mib); }
  void free(uint64_t at, uint64_t mib) {
    add(EventKind::kFreeRequested, at, mib);
    add(EventKind::kFreeCompleted, at, mib);
  }
  void oom(uint64_t mib) { add(EventKind::kOom, 0, mib); }
  DeviceReport report() {
    trace_.devices.resize(1);
    trace_.devices.front().event_count = trace_.events.size();
    return explain(trace_).value().devices.front();
  }

 private:
  static constexpr uint64_t kBase = uint64_t{1} << 40;
  trace::Trace trace_;
};

// Two segments of 24 MiB, each half in use; 20 MiB then fit into neither, and a third segment is
// over the limit. One segment that grew to 48 MiB would have had room.
Recording torn_in_two() {
  Recording r;
  r.segment(0, 24);
  r.segment(64, 24);
  r.free(0, 24);
  r.free(64, 24);
  r.alloc(0, 12);
  r.alloc(64, 13);
  r.oom(20);
  return r;
}

std::string oom_advice(const DeviceReport& report) {
  const auto found = std::ranges::find(report.findings, FindingKind::kOom, &Finding::kind);
  return found == report.findings.end() ? "" : found->advice;
}

TEST(WhatIf, AnOomThatExpandableSegmentsWouldHaveAvoided) {
  const DeviceReport report = torn_in_two().report();
  ASSERT_TRUE(report.what_if);
  // 48 MiB were granted, 48 + 20 refused.
  ASSERT_TRUE(report.what_if->capacity_bytes);
  EXPECT_GE(*report.what_if->capacity_bytes, 48 * kMiB);
  EXPECT_LT(*report.what_if->capacity_bytes, 68 * kMiB);
  const WhatIf& own = *what_if_recorded(report);
  EXPECT_EQ(own.allocator, "torch");
  EXPECT_TRUE(own.is_recorded);
  EXPECT_FALSE(own.completed);
  EXPECT_EQ(own.oom_event, 10u);
  const WhatIf* expandable = what_if(report, replay::kExpandableSpec);
  ASSERT_NE(expandable, nullptr);
  EXPECT_TRUE(expandable->completed);
  EXPECT_EQ(expandable_helps(report), Help::kYes);
  EXPECT_THAT(oom_advice(report), HasSubstr("expandable_segments:True"));
  EXPECT_THAT(oom_advice(report), HasSubstr("completes with 60 MiB reserved"));
}

TEST(WhatIf, AnOomOfMemoryInUseIsNotBlamedOnSettings) {
  Recording r;
  r.segment(0, 24);
  r.segment(64, 24);
  r.oom(20);
  const DeviceReport report = r.report();
  ASSERT_TRUE(report.what_if);
  EXPECT_EQ(expandable_helps(report), Help::kNo);
  EXPECT_THAT(oom_advice(report), HasSubstr("A setting would not do."));
  EXPECT_THAT(oom_advice(report), HasSubstr("runs out of memory"));
}

TEST(WhatIf, NothingIsAskedWhereLittleIsWasted) {
  Recording r;
  r.segment(0, 24);
  r.segment(64, 24);
  EXPECT_FALSE(r.report().what_if);
}

// The recording took segments that its allocations do not explain.
TEST(WhatIf, AReplayThatMissesTheRecordedPeakIsNotBelieved) {
  Recording r;
  r.segment(0, 24);
  r.add(EventKind::kSegmentAlloc, 64, 200);
  EXPECT_FALSE(r.report().what_if);
}

TEST(WhatIf, ARealProgramThatFragments) {
  const auto trace = trace::open_trace(VRAM_TEST_DATA "/../../demo/unet_multiscale.pickle.xz");
  ASSERT_TRUE(trace) << trace.error().message;
  const DeviceReport report = explain(*trace).value().devices.front();
  ASSERT_TRUE(report.what_if);
  EXPECT_EQ(report.what_if->capacity_bytes, std::nullopt);
  // As PyTorch's own counters said of runs with either setting.
  EXPECT_EQ(what_if_recorded(report)->peak_reserved_bytes, 27'011'317'760u);
  EXPECT_EQ(what_if(report, replay::kExpandableSpec)->peak_reserved_bytes, 16'584'278'016u);
  EXPECT_EQ(expandable_helps(report), Help::kYes);
  EXPECT_THAT(replayed_with_expandable(report), HasSubstr("15.4 GiB at its peak instead of 25.2"));
}

DeviceReport report_of(const std::string& name) {
  return explain(*trace::open_trace(VRAM_TEST_DATA "/middle/" + name + ".pickle.xz"))
      .value()
      .devices.front();
}

// What other settings would have left at that moment is not known.
TEST(WhatIf, FromTheMiddleOfAProgramOnlyTheRecordedSettingsAreExact) {
  const DeviceReport report = report_of("unet_multiscale.mid");
  ASSERT_TRUE(report.what_if);
  EXPECT_TRUE(report.what_if->fidelity.is_exact());
  EXPECT_EQ(what_if_recorded(report)->basis, replay::Basis::kExact);
  EXPECT_EQ(what_if(report, replay::kExpandableSpec)->basis, replay::Basis::kEstimate);
  EXPECT_THAT(replayed_with_expandable(report), HasSubstr("(an estimate)"));
}

// As much was reserved when the ring begins as ever after.
TEST(WhatIf, NothingIsSavedOfAPeakBeforeTheRecording) {
  EXPECT_FALSE(report_of("unet_multiscale.ring").what_if);
}

}  // namespace
}  // namespace vram::explain
