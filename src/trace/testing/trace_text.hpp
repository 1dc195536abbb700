// A Trace as the text that tests/data/snapshot_text.py makes of the same snapshot without our
// reader: every event, segment, block, annotation and setting in a line. For tests.
#pragma once

#include "trace/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

namespace vram::trace {

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
