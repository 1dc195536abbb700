#include "explain/explain.hpp"

#include "explain/testing/trace_builder.hpp"

#include <gtest/gtest.h>

namespace vram::explain {
namespace {

// Device 0 peaks at 3 MiB, device 1 at 8 MiB.
trace::Trace two_devices() {
  testing::TraceBuilder builder;
  auto small = builder.alloc(3 << 20);
  builder.free(small);
  const uint64_t split = builder.event();
  auto large = builder.alloc(8 << 20);
  builder.oom(uint64_t{1} << 30, 5 << 20);
  builder.free(large);
  trace::Trace trace = builder.build().trace;
  trace.devices[0].event_count = split;
  trace::DeviceTrace second;
  second.ordinal = 1;
  second.first_event = split;
  second.event_count = trace.events.size() - split;
  trace.devices.push_back(std::move(second));
  return trace;
}

TEST(Explain, LeadsWithTheLargestPeakUnlessAsked) {
  const trace::Trace trace = two_devices();
  const Report report = explain(trace).value();
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.main_device, 1U);
  EXPECT_EQ(report.devices[1].peak.requested.totals.requested_bytes, uint64_t{8} << 20);
  EXPECT_EQ(explain(trace, {.device = 0}).value().main_device, 0U);
}

// Else a recording of some MiB with thousands of devices would make a document of a GiB.
TEST(Explain, TimelinesOfManyDevicesAreShorter) {
  testing::TraceBuilder builder;
  trace::Trace trace = builder.build().trace;
  trace.devices.clear();
  for (uint32_t ordinal = 0; ordinal < 1000; ++ordinal) {
    trace::DeviceTrace device;
    device.ordinal = ordinal;
    device.first_event = trace.events.size();
    device.event_count = 2;
    trace.devices.push_back(std::move(device));
    for (const auto kind : {trace::EventKind::kAlloc, trace::EventKind::kFreeCompleted}) {
      trace::Event event;
      event.kind = kind;
      event.address = 512;
      event.size_bytes = 512;
      event.time_ns = kind == trace::EventKind::kAlloc ? 0 : 1'000'000;
      trace.events.push_back(event);
    }
  }
  trace.has_time = true;
  const Report report = explain(trace).value();
  size_t slices = 0;
  for (const DeviceReport& device : report.devices) {
    EXPECT_GE(device.timeline.size(), 10U);
    slices += device.timeline.size();
  }
  EXPECT_LE(slices, 64'000U);
}

TEST(Explain, CountsWhatHappened) {
  const Report report = explain(two_devices()).value();
  const DeviceReport& device = report.devices[1];
  EXPECT_EQ(device.allocations, 1U);
  EXPECT_EQ(device.frees, 1U);
  EXPECT_EQ(device.stream_count, 1U);
  ASSERT_EQ(device.ooms.size(), 1U);
  EXPECT_EQ(device.ooms[0].requested_bytes, uint64_t{1} << 30);
  EXPECT_EQ(device.ooms[0].device_free_bytes, uint64_t{5} << 20);
}

// Times count from the recording's first event, whichever device it is of; clocks may step back.
TEST(Explain, ADevicesSpanReachesAllOfItsMoments) {
  trace::Trace trace = two_devices();
  const uint64_t second = trace.devices[1].first_event;
  const int64_t begin_ns = trace.events[0].time_ns;
  for (uint64_t i = second; i < trace.events.size(); ++i)
    trace.events[i].time_ns = begin_ns + 139'000'000;
  trace.events.back().time_ns = begin_ns + 100'000'000;
  const DeviceReport device = explain(trace).value().devices[1];
  EXPECT_EQ(device.peak.requested.time_ns, 139'000'000);
  EXPECT_EQ(device.duration_ns, 139'000'000);
}

TEST(Explain, SaysWhatIsNotThere) {
  const trace::Trace trace = two_devices();
  ExplainOptions options;
  options.device = 7;
  const auto no_device = explain(trace, options);
  ASSERT_FALSE(no_device.has_value());
  EXPECT_EQ(no_device.error().code, Code::kNotFound);
  EXPECT_NE(no_device.error().message.find("it has device 0, 1"), std::string::npos);

  EXPECT_FALSE(explain(trace::Trace{}).has_value());
}

TEST(Explain, PutsSettingsThatDifferFirst) {
  trace::Trace trace = two_devices();
  trace.settings = {{"max_split_size", "-1"}, {"expandable_segments", "true"}};
  const Report report = explain(trace).value();
  ASSERT_EQ(report.settings.size(), 2U);
  EXPECT_EQ(report.settings[0].first, "expandable_segments");
}

}  // namespace
}  // namespace vram::explain
