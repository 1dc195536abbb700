#include "explain/whatif/what_if.hpp"

#include "base/bytes.hpp"
#include "base/testing/paths.hpp"
#include "explain/explain.hpp"
#include "replay/recorded_limit.hpp"
#include "replay/replay.hpp"
#include "replay/tune/tune.hpp"
#include "replay/tune/tune_space.hpp"
#include "trace/open.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace vram::explain {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
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
  void oom(uint64_t mib, uint64_t free_mib = 0) {
    add(EventKind::kOom, 0, mib);
    trace_.events.back().address = free_mib * kMiB;
  }
  const trace::Trace& trace() {
    trace_.devices.resize(1);
    trace_.devices.front().event_count = trace_.events.size();
    return trace_;
  }
  DeviceReport report() { return explain(trace()).value().devices.front(); }

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
  EXPECT_EQ(what_if_recommended(report), expandable);
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
  EXPECT_EQ(what_if_recommended(report), nullptr);
  EXPECT_THAT(oom_advice(report), HasSubstr("No setting of PyTorch replayed here"));
  EXPECT_THAT(oom_advice(report), Not(HasSubstr("export")));
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
  const auto trace = trace::open_trace(source_path("demo/unet_multiscale.pickle.xz"));
  ASSERT_TRUE(trace) << trace.error().message;
  const DeviceReport report = explain(*trace).value().devices.front();
  ASSERT_TRUE(report.what_if);
  EXPECT_EQ(report.what_if->capacity_bytes, std::nullopt);
  // As PyTorch's own counters said of runs with either setting.
  EXPECT_EQ(what_if_recorded(report)->peak_reserved_bytes, 27'011'317'760u);
  EXPECT_EQ(what_if(report, replay::kExpandableSpec)->peak_reserved_bytes, 16'584'278'016u);
  EXPECT_EQ(what_if_recommended(report), what_if(report, replay::kExpandableSpec));
  EXPECT_THAT(report.findings.front().advice, HasSubstr("15.4 GiB at its peak instead of 25.2"));
}

// With a limit, the device had more free than the program was granted.
TEST(WhatIf, TheLimitInForceIsNamedUnlessTheDeviceWasFull) {
  for (const uint64_t free_mib : {uint64_t{0}, uint64_t{17}, uint64_t{1000}}) {
    Recording r;
    r.segment(0, 24);
    r.segment(64, 24);
    r.oom(20, free_mib);
    const DeviceReport report = r.report();
    ASSERT_EQ(report.ooms.size(), 1U);
    EXPECT_EQ(report.ooms[0].limit_bytes.has_value(), free_mib > 20);
  }
}

// A ring of one entry: what it keeps is no program.
TEST(WhatIf, NothingIsAskedOfOneEvent) {
  Recording r;
  r.add(EventKind::kSegmentAlloc, 0, 200);
  EXPECT_FALSE(r.report().what_if);
}

// Replays of segments that were assumed would be compared with what was not recorded.
TEST(WhatIf, NothingIsAskedWhereSegmentsAreAssumed) {
  Recording r;
  r.alloc(0, 3);
  r.alloc(101, 3);
  const DeviceReport report = r.report();
  EXPECT_GT(report.verdict.assumed_segment_bytes, 0U);
  EXPECT_FALSE(report.what_if);
}

// What a report and `vram tune` say of one program must agree.
void expect_one_answer(const trace::Trace& trace, const DeviceReport& report,
                       const trace::DeviceTrace& device) {
  if (!report.what_if) return;
  replay::Program program = replay::make_program(trace, device);
  const replay::AllocatorSpec own = replay::recorded_spec(trace);
  const auto limit = replay::settle_recorded(program, own);
  replay::TuneOptions options;
  if (limit) options.capacity_bytes = limit->bytes;
  options.capacity_is_fraction = limit && limit->is_fraction;
  EXPECT_EQ(options.capacity_bytes, report.what_if->capacity_bytes);
  const replay::TuneResult tuned = replay::tune(program, own, options);
  std::vector<replay::TuneCandidate> all = tuned.ranked;
  all.insert(all.end(), tuned.others.begin(), tuned.others.end());
  for (const WhatIf& replay : report.what_if->replays) {
    const auto same = std::ranges::find(
        all, replay.allocator, [](const auto& candidate) { return candidate.result.allocator; });
    ASSERT_NE(same, all.end()) << replay.allocator;
    EXPECT_EQ(replay.completed, same->result.completed && same->result.caught_ooms == 0);
    EXPECT_EQ(replay.peak_reserved_bytes, same->result.peak_reserved_bytes);
    EXPECT_EQ(replay.driver_time_ns, same->result.driver_time_ns);
    EXPECT_EQ(replay.retries, same->result.retries);
  }
  const WhatIf* recommended = what_if_recommended(report);
  if (recommended != nullptr) {
    EXPECT_EQ(tuned.verdict, replay::TuneVerdict::kBetter);
    return;
  }
  for (const Finding& finding : report.findings)
    EXPECT_THAT(finding.advice, Not(HasSubstr("PYTORCH_CUDA_ALLOC_CONF"))) << finding.title;
  // Then tune's answer is a setting that the report has not replayed, or none that saves memory.
  const replay::TuneCandidate& best = tuned.ranked.front();
  const WhatIf* same = what_if(report, best.result.allocator);
  if (tuned.verdict == replay::TuneVerdict::kBetter && same != nullptr) {
    EXPECT_GE(same->peak_reserved_bytes, what_if_recorded(report)->peak_reserved_bytes)
        << same->allocator;
  }
}

TEST(WhatIf, ReportsAndTuneGiveOneAnswer) {
  const std::filesystem::path data = data_path("");
  size_t replayed = 0;
  for (const auto& folder : {data / "../../demo", data / "snapshots"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const auto trace = trace::open_trace(entry.path().string());
      if (!trace || trace->devices.empty()) continue;
      SCOPED_TRACE(entry.path().filename());
      const Report report = explain(*trace).value();
      for (size_t i = 0; i < report.devices.size(); ++i) {
        expect_one_answer(*trace, report.devices[i], trace->devices[i]);
        replayed += report.devices[i].what_if ? 1 : 0;
      }
    }
  }
  EXPECT_GE(replayed, 2U);
  Recording torn = torn_in_two();
  expect_one_answer(torn.trace(), torn.report(), torn.trace().devices.front());
}

// 600 MiB were refused in addition to 300, for others held the device; later the program got 800 in
// all. No one limit explains both.
TEST(WhatIf, WhereNoLimitExplainsTheRefusalsReportsAndTuneAssumeTheSame) {
  Recording r;
  r.segment(0, 300);
  r.oom(600, 1);
  r.segment(400, 500);
  r.free(0, 300);
  r.alloc(0, 200);
  const DeviceReport report = r.report();
  ASSERT_TRUE(report.what_if);
  EXPECT_TRUE(report.what_if->capacity_is_assumed);
  EXPECT_EQ(report.what_if->capacity_bytes, 800 * kMiB);
  expect_one_answer(r.trace(), report, r.trace().devices.front());
}

DeviceReport report_of(const std::string& name) {
  return explain(*trace::open_trace(data_path("middle/") + name + ".pickle.xz"))
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
  EXPECT_THAT(report.findings.front().advice,
              HasSubstr("at its peak instead of 25.2 GiB (an estimate)"));
}

// As much was reserved when the ring begins as ever after.
TEST(WhatIf, NothingIsSavedOfAPeakBeforeTheRecording) {
  EXPECT_FALSE(report_of("unet_multiscale.ring").what_if);
}

}  // namespace
}  // namespace vram::explain
