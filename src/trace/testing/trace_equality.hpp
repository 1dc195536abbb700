// Compares two traces field by field; a failure names the first field that differs. The trace's
// origin (path, format, size) is not compared.
#pragma once

#include "trace/trace.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <tuple>
#include <vector>

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
  expect_same_items<Figure>(a.figures, b.figures, "figure");
  expect_same_items<Mark>(a.marks, b.marks, "mark");
  expect_same_settings(a.settings, b.settings);
  expect_same_settings(a.about, b.about);
  ASSERT_EQ(a.origin.notes.size(), b.origin.notes.size());
  for (size_t i = 0; i < a.origin.notes.size(); ++i) {
    EXPECT_EQ(a.origin.notes[i].text, b.origin.notes[i].text);
    EXPECT_EQ(a.origin.notes[i].count, b.origin.notes[i].count);
  }
}

// A Trace as the text that tests/data/snapshot_text.py makes of the same snapshot without our
// reader: every event, segment, block, annotation and setting in a line. For tests.

inline std::string stack_text(const Tables& tables, StackId stack) {
  std::string text;
  for (const FrameId id : tables.stacks[stack]) {
    const Frame& frame = tables.frames[id];
    const auto string = [&](StringId of) { return tables.strings[of]; };
    if (!text.empty()) text += '|';
    text += fmt::format("{}@{}:{}", string(frame.function), string(frame.file), frame.line);
    if (frame.fx_node != 0) text += fmt::format("{{{}}}", string(frame.fx_node));
    if (frame.fx_trace != 0) text += fmt::format("{{{}}}", string(frame.fx_trace));
  }
  return text;
}

inline std::string pool_text(const Tables& tables, PoolId pool) {
  if (pool == kUnknownPool) return "?";
  return fmt::format("{},{}", tables.pools[pool].first, tables.pools[pool].second);
}

inline std::string event_text(const Tables& tables, const Event& event) {
  const Context& context = tables.contexts[event.context];
  return fmt::format(
      "event {} {:#x} {} stream={:#x} time_ns={} pool={} compile={} user={} category={} forward={} "
      "stack={}\n",
      to_string(event.kind), event.address, event.size_bytes, tables.streams[event.stream],
      event.time_ns, pool_text(tables, event.pool), tables.strings[context.compile_id],
      tables.strings[context.user_metadata], tables.strings[context.category],
      stack_text(tables, context.forward_stack), stack_text(tables, event.stack));
}

inline std::string segment_text(const Tables& tables, const DeviceTrace& device,
                                const Segment& segment) {
  std::string text = fmt::format(
      "segment {:#x} {} stream={:#x} pool={} small={:d} expandable={:d} claimed={},{},{} "
      "stack={}\n",
      segment.address, segment.size_bytes, tables.streams[segment.stream],
      pool_text(tables, segment.pool), segment.is_small, segment.is_expandable,
      segment.claimed_allocated_bytes, segment.claimed_active_bytes,
      segment.claimed_requested_bytes, stack_text(tables, segment.stack));
  constexpr const char* kStates[] = {"inactive", "allocated", "pending"};
  for (uint64_t i = segment.first_block; i < segment.first_block + segment.block_count; ++i) {
    const Block& block = device.blocks[i];
    text += fmt::format("block {:#x} {} requested={} {} stack={}\n", block.address,
                        block.size_bytes, block.requested_bytes,
                        kStates[static_cast<int>(block.state)], stack_text(tables, block.stack));
  }
  return text;
}

inline std::string trace_text(const Trace& trace) {
  std::string text;
  for (const DeviceTrace& device : trace.devices) {
    text +=
        fmt::format("device {} {} ring={:d}\n", device.kind == DeviceKind::kGpu ? "gpu" : "host",
                    device.ordinal, device.ring_overflowed);
    for (const Event& event : trace.events_of(device)) text += event_text(trace.tables, event);
    for (const Segment& s : device.segments) text += segment_text(trace.tables, device, s);
  }
  using Row = std::tuple<uint32_t, std::string_view, std::string_view, int64_t>;
  std::vector<Row> rows;
  for (const Annotation& a : trace.annotations) {
    rows.emplace_back(a.device, trace.tables.strings[a.name], a.is_begin ? "START" : "END",
                      a.time_ns);
  }
  std::sort(rows.begin(), rows.end());
  for (const auto& [device, name, stage, time_ns] : rows) {
    text += fmt::format("annotation {} device={} time_ns={} {}\n", stage, device, time_ns, name);
  }
  for (const Setting& s : trace.settings) text += fmt::format("setting {}={}\n", s.key, s.value);
  return text;
}

}  // namespace vram::trace
