#include "base/bytes.hpp"
#include "explain/explain.hpp"
#include "explain/moment/state.hpp"
#include "explain/testing/recording.hpp"
#include "explain/testing/trace_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace vram::explain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void expect(std::string_view text, MomentKind kind, uint64_t value) {
  const auto request = parse_moment("at", text);
  ASSERT_TRUE(request) << text;
  EXPECT_EQ(request->kind, kind) << text;
  EXPECT_EQ(request->value, value) << text;
}

TEST(Moment, EveryFormIsUnderstood) {
  expect("1.5s", MomentKind::kTime, 1'500'000'000);
  expect("250ms", MomentKind::kTime, 250'000'000);
  expect("event:1234", MomentKind::kEvent, 1234);
  expect("step:12", MomentKind::kStep, 12);
  expect("peak", MomentKind::kPeak, 0);
  expect("oom", MomentKind::kOom, 0);
  expect("oom:3", MomentKind::kOom, 3);
}

TEST(Moment, OthersAreRefusedWithTheFormsThatExist) {
  for (const char* text : {"", "step:", "step:x", "event:-1", "event:1.5", "noon", "-1s", "peak:1",
                           "oom:99999999999999999999"}) {
    const auto request = parse_moment("at", text);
    ASSERT_FALSE(request) << text;
    EXPECT_THAT(request.error().message, AllOf(StartsWith("at takes"), HasSubstr("step:N")));
  }
}

// Three steps, each of which keeps 4 MiB and frees 2 MiB, and then a request that fails.
trace::Trace three_steps() {
  constexpr uint64_t kSegment = uint64_t{1} << 40;
  testing::Recording recording;
  recording.segment(kSegment, 20 * kMiB);
  trace::Trace& trace = recording.trace();
  const auto mark = [&](uint64_t step, bool is_begin) {
    const auto name = trace.tables.strings.intern("ProfilerStep#" + std::to_string(step));
    const int64_t time_ns = trace.events.back().time_ns + (is_begin ? 2 : 1);
    trace.annotations.push_back({.time_ns = time_ns, .name = name, .is_begin = is_begin});
  };
  for (uint64_t step = 0; step < 3; ++step) {
    const uint64_t kept = kSegment + 4 * step * kMiB;
    mark(step, true);
    recording.alloc(kept, 4 * kMiB).alloc(kept + 4 * kMiB, 2 * kMiB);
    recording.free(kept + 4 * kMiB, 2 * kMiB);
    mark(step, false);
  }
  recording.add(trace::EventKind::kOom, 5 * kMiB, 1024 * kMiB);
  return std::move(trace);
}

State state_at(const trace::Trace& trace, const char* text) {
  const Report report = explain(trace).value();
  return find_state(trace, report, report.main_device, parse_moment("at", text).value()).value();
}

std::string error_at(const trace::Trace& trace, const char* text) {
  const Report report = explain(trace).value();
  const auto found =
      find_state(trace, report, report.main_device, parse_moment("at", text).value());
  EXPECT_EQ(found.error().code, Code::kNotFound) << text;
  return found.error().message;
}

TEST(Moment, IsTheStateAfterItsEvent) {
  const trace::Trace trace = three_steps();
  const std::map<std::string, std::pair<int64_t, uint64_t>> expected = {
      {"event:0", {0, 0}},       {"event:4", {4, 4 * kMiB}}, {"0s", {0, 0}},
      {"4us", {4, 4 * kMiB}},    {"peak", {10, 14 * kMiB}},  {"oom", {13, 12 * kMiB}},
      {"oom:0", {13, 12 * kMiB}}};
  for (const auto& [text, event_and_bytes] : expected) {
    const State state = state_at(trace, text.c_str());
    EXPECT_EQ(state.moment.event, event_and_bytes.first) << text;
    EXPECT_EQ(state.moment.totals.requested_bytes, event_and_bytes.second) << text;
    EXPECT_EQ(state.moment.totals.reserved_bytes, 20 * kMiB) << text;
  }
}

TEST(Moment, AStepIsWhereMostWasRequestedInIt) {
  const trace::Trace trace = three_steps();
  for (const uint64_t step : {0, 1, 2}) {
    const State state = state_at(trace, ("step:" + std::to_string(step)).c_str());
    EXPECT_EQ(state.moment.totals.requested_bytes, (4 * (step + 1) + 2) * kMiB) << step;
  }
}

TEST(Moment, WhatTheRecordingLacksIsAnErrorThatBeginsWithIt) {
  trace::Trace trace = three_steps();
  EXPECT_EQ(error_at(trace, "step:3"), "step:3: the recording has steps 0 to 2");
  EXPECT_EQ(error_at(trace, "event:99"), "event:99: device 0 has events 0 to 13");
  EXPECT_EQ(error_at(trace, "1h"), "60 min 0 s: the recording ends at 13 us");
  EXPECT_EQ(error_at(trace, "oom:1"),
            "oom:1: the recording ran out of memory once, counted from 0");
  trace.events[13].kind = trace::EventKind::kOther;
  EXPECT_EQ(error_at(trace, "oom"), "oom: nothing ran out of memory in this recording");
  trace.annotations.clear();
  EXPECT_EQ(error_at(trace, "step:0"), "step:0: no steps were found in this recording");
  trace.has_time = false;
  EXPECT_THAT(error_at(trace, "1ns"), StartsWith("1 ns: this recording has no clock"));
}

// A report keeps the states of the first and the last OOMs only.
TEST(Moment, EveryOomCanBeNamed) {
  testing::TraceBuilder builder;
  constexpr uint64_t kOoms = 40;
  for (uint64_t i = 0; i < kOoms; ++i) {
    builder.alloc(kMiB);
    builder.oom(1024 * kMiB, 5 * kMiB);
  }
  const trace::Trace trace = builder.build().trace;
  for (const uint64_t selected : {uint64_t{0}, uint64_t{8}, uint64_t{20}, kOoms - 1}) {
    const State state = state_at(trace, ("oom:" + std::to_string(selected)).c_str());
    EXPECT_EQ(state.moment.totals.requested_bytes, (selected + 1) * kMiB) << selected;
  }
  EXPECT_THAT(error_at(trace, "oom:40"), HasSubstr("40 times"));
}

// Device 1 allocates 1 us after device 0.
TEST(Moment, IsOfOneDevice) {
  testing::Recording recording;
  trace::Trace& trace = recording.alloc(1 << 20, kMiB).alloc(1 << 30, 8 * kMiB).trace();
  trace.devices[0].event_count = 1;
  trace::DeviceTrace& second = trace.devices.emplace_back();
  second.ordinal = 1;
  second.first_event = 1;
  second.event_count = 1;
  const Report report = explain(trace).value();
  for (const size_t device : {0, 1}) {
    const State state = find_state(trace, report, device, {MomentKind::kEvent, 0}).value();
    EXPECT_EQ(state.moment.totals.requested_bytes, device == 0 ? kMiB : 8 * kMiB);
    EXPECT_FALSE(find_state(trace, report, device, {MomentKind::kEvent, 1}));
  }
  EXPECT_EQ(find_state(trace, report, 1, {MomentKind::kTime, 0}).error().message,
            "0 ns: the first event of device 1 is at 1 us");
}

}  // namespace
}  // namespace vram::explain
