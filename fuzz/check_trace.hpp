// What holds of every trace that a reader returns: ids are within their tables, and ranges within
// their arrays.
#pragma once

#include "base/result.hpp"
#include "trace/trace.hpp"

namespace vram::trace {

inline void check_event(const Trace& trace, const Event& event) {
  const Tables& tables = trace.tables;
  VRAM_CHECK(event.kind >= EventKind::kAlloc && event.kind <= EventKind::kOther);
  VRAM_CHECK(event.stack < tables.stacks.size());
  VRAM_CHECK(event.context < tables.contexts.size());
  VRAM_CHECK(event.stream < tables.streams.size());
  VRAM_CHECK(event.pool == kUnknownPool || event.pool < tables.pools.size());
}

inline void check_device(const Trace& trace, const DeviceTrace& device) {
  VRAM_CHECK(device.first_event + device.event_count <= trace.events.size());
  for (const Segment& segment : device.segments) {
    VRAM_CHECK(segment.first_block + segment.block_count <= device.blocks.size());
    VRAM_CHECK(segment.stack < trace.tables.stacks.size());
    VRAM_CHECK(segment.stream < trace.tables.streams.size());
  }
  for (const Block& block : device.blocks.span()) {
    VRAM_CHECK(block.stack < trace.tables.stacks.size());
    VRAM_CHECK(block.state <= BlockState::kPendingFree);
    VRAM_CHECK(block.unused[0] == 0);
  }
}

inline void check_tables(const Tables& tables) {
  for (StackId id = 0; id < tables.stacks.size(); ++id) {
    for (const FrameId frame : tables.stacks[id]) VRAM_CHECK(frame < tables.frames.size());
  }
  for (FrameId id = 0; id < tables.frames.size(); ++id) {
    VRAM_CHECK(tables.frames[id].function < tables.strings.size());
    VRAM_CHECK(tables.frames[id].file < tables.strings.size());
  }
}

inline void check_trace(const Trace& trace) {
  uint64_t events = 0;
  for (const DeviceTrace& device : trace.devices) {
    check_device(trace, device);
    events += device.event_count;
  }
  VRAM_CHECK(events == trace.events.size());
  for (const Event& event : trace.events.span()) check_event(trace, event);
  for (const Annotation& annotation : trace.annotations) {
    VRAM_CHECK(annotation.name < trace.tables.strings.size());
  }
  for (const Figure& figure : trace.figures) {
    VRAM_CHECK(figure.name < trace.tables.strings.size());
  }
  for (const Mark& mark : trace.marks) {
    VRAM_CHECK(mark.name < trace.tables.strings.size() && mark.group < trace.tables.strings.size());
    VRAM_CHECK(mark.duration_ns >= 0 && static_cast<uint8_t>(mark.kind) < kMarkKinds);
  }
  check_tables(trace.tables);
}

}  // namespace vram::trace
