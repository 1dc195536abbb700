// Compares two traces field by field; a failure names the first field that differs. The trace's
// origin (path, format, size) is not compared.
#pragma once

#include "trace/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <tuple>

namespace vram::trace {

template <typename T>
void expect_same_items(std::span<const T> a, std::span<const T> b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin());
  EXPECT_TRUE(at == a.end()) << what << " " << (at - a.begin());
}

inline void expect_same_tables(const Tables& a, const Tables& b) {
  ASSERT_EQ(a.strings.size(), b.strings.size());
  for (StringId id = 0; id < a.strings.size(); ++id) EXPECT_EQ(a.strings[id], b.strings[id]);
  ASSERT_EQ(a.frames.size(), b.frames.size());
  for (FrameId id = 0; id < a.frames.size(); ++id) EXPECT_EQ(a.frames[id], b.frames[id]);
  ASSERT_EQ(a.stacks.size(), b.stacks.size());
  for (StackId id = 0; id < a.stacks.size(); ++id)
    expect_same_items(a.stacks[id], b.stacks[id], "stack");
  ASSERT_EQ(a.contexts.size(), b.contexts.size());
  for (ContextId id = 0; id < a.contexts.size(); ++id) EXPECT_EQ(a.contexts[id], b.contexts[id]);
  ASSERT_EQ(a.streams.size(), b.streams.size());
  for (size_t id = 0; id < a.streams.size(); ++id)
    EXPECT_EQ(a.streams[static_cast<StreamId>(id)], b.streams[static_cast<StreamId>(id)]);
  ASSERT_EQ(a.pools.size(), b.pools.size());
  for (size_t id = 0; id < a.pools.size(); ++id)
    EXPECT_EQ(a.pools[static_cast<PoolId>(id)], b.pools[static_cast<PoolId>(id)]);
}

inline void expect_same_device(const DeviceTrace& a, const DeviceTrace& b) {
  const auto facts = [](const DeviceTrace& device) {
    return std::tuple(device.ordinal, device.kind, device.first_event, device.event_count,
                      device.has_end_state, device.ring_overflowed);
  };
  EXPECT_EQ(facts(a), facts(b));
  expect_same_items<Segment>(a.segments, b.segments, "segment");
  expect_same_items(a.blocks.span(), b.blocks.span(), "block");
}

inline void expect_same_settings(const std::vector<Setting>& a, const std::vector<Setting>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].key, b[i].key);
    EXPECT_EQ(a[i].value, b[i].value);
  }
}

inline void expect_same_trace(const Trace& a, const Trace& b) {
  const auto flags = [](const Trace& trace) {
    return std::tuple(trace.has_time, trace.has_stacks, trace.has_pools,
                      trace.origin.truncated_at_byte);
  };
  EXPECT_EQ(flags(a), flags(b));
  expect_same_tables(a.tables, b.tables);
  expect_same_items(a.events.span(), b.events.span(), "event");
  ASSERT_EQ(a.devices.size(), b.devices.size());
  for (size_t i = 0; i < a.devices.size(); ++i) expect_same_device(a.devices[i], b.devices[i]);
  expect_same_items<Annotation>(a.annotations, b.annotations, "annotation");
  expect_same_settings(a.settings, b.settings);
  expect_same_settings(a.about, b.about);
  ASSERT_EQ(a.origin.notes.size(), b.origin.notes.size());
  for (size_t i = 0; i < a.origin.notes.size(); ++i) {
    EXPECT_EQ(a.origin.notes[i].text, b.origin.notes[i].text);
    EXPECT_EQ(a.origin.notes[i].count, b.origin.notes[i].count);
  }
}

}  // namespace vram::trace
