#include "trace/import/foreign/profiler_events.hpp"

#include "trace/import/foreign/foreign.hpp"
#include "trace/testing/import_bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vram::trace {
namespace {

using testing::HasSubstr;

ProfilerEvent memory_event() {
  ProfilerEvent event;
  event.phase = 'i';
  event.name = "[memory]";
  event.bytes = 512;
  event.address = 1;
  event.device_type = 1;
  return event;
}

ProfilerEvent call_event() {
  ProfilerEvent event;
  event.phase = 'X';
  event.category = "cpu_op";
  return event;
}

TEST(Profiler, DevicesThatPyTorchCannotNumberAreLeftOut) {
  Trace trace;
  ProfilerEvents events(trace);
  ProfilerEvent event = memory_event();
  for (const int device : {127, 128}) {
    event.device = device;
    events.add(event);
  }
  ASSERT_TRUE(events.finish());
  ASSERT_EQ(trace.devices.size(), 1U);
  EXPECT_EQ(trace.devices[0].ordinal, 127U);
}

TEST(Profiler, LevelsAreLimited) {
  const auto levels = [](size_t count) {
    const std::string text = R"({"schemaVersion":1,"x":)" + std::string(count, '[');
    const auto source = memory_source(bytes_of(text));
    const auto trace = import_foreign(*source, ForeignForm::kProfilerTrace, {});
    return trace ? "" : trace.error().message;
  };
  EXPECT_THAT(levels(100'000), HasSubstr("too many levels"));
  EXPECT_THAT(levels(255), HasSubstr("no [memory] events"));
}

// Of each kind, a million that a compressed file of some KiB may have.
TEST(Profiler, MemoryIsLimited) {
  constexpr uint64_t kLimit = 1 << 20;
  const auto fills = [](ProfilerEvent event, auto change) {
    Trace trace;
    ProfilerEvents events(trace, kLimit);
    for (int i = 0; i < 1'000'000; ++i) {
      change(event, i);
      events.add(event);
      if (events.is_full()) {
        const auto done = events.finish();
        return !done && done.error().code == Code::kTooLarge;
      }
    }
    return false;
  };
  ProfilerEvent memory = memory_event();
  EXPECT_TRUE(fills(memory, [](ProfilerEvent&, int) {}));
  memory.bytes = 0;
  EXPECT_TRUE(fills(memory, [](ProfilerEvent& event, int i) { event.thread = i; }));
  ProfilerEvent call = call_event();
  EXPECT_TRUE(fills(call, [](ProfilerEvent&, int) {}));
  EXPECT_TRUE(fills(call, [](ProfilerEvent& event, int i) { event.name = std::to_string(i); }));
  call.category = "user_annotation";
  EXPECT_TRUE(fills(call, [](ProfilerEvent&, int) {}));
}

// Calls that nest, and a change of memory in each: their stacks are larger than they are.
TEST(Profiler, MemoryOfStacksIsLimited) {
  constexpr int kCalls = 5000;
  const auto finished = [](uint64_t max_memory_bytes) {
    Trace trace;
    ProfilerEvents events(trace, max_memory_bytes);
    for (int i = 0; i < kCalls; ++i) {
      ProfilerEvent call = call_event();
      call.name = std::to_string(i);
      call.begin_us = 2 * i;
      call.duration_us = 1e6;
      events.add(call);
      ProfilerEvent memory = memory_event();
      memory.begin_us = 2 * i + 1;
      events.add(memory);
    }
    EXPECT_FALSE(events.is_full());
    return events.finish().has_value();
  };
  EXPECT_TRUE(finished(uint64_t{64} << 20));
  EXPECT_FALSE(finished(uint64_t{4} << 20));
}

}  // namespace
}  // namespace vram::trace
