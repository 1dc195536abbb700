// A small trace with one of everything that the format can contain.
// tests/data/vtrace/sample.v1.vtrace is this trace, written by the first version of vram; neither
// may ever change.
#pragma once

#include "trace/trace.hpp"

#include <limits>

namespace vram::trace {

inline Event sample_event(EventKind kind, uint64_t address, uint64_t size_bytes, int64_t time_ns) {
  Event event;
  event.kind = kind;
  event.address = address;
  event.size_bytes = size_bytes;
  event.time_ns = time_ns;
  return event;
}

inline void fill_sample_tables(Tables& tables) {
  const StringId function = tables.strings.intern("forward");
  const StringId file = tables.strings.intern("/home/ada/train \"v2\", néw.py");
  const FrameId inner = tables.frames.intern({.function = function, .file = file, .line = 12});
  const FrameId outer =
      tables.frames.intern({.function = tables.strings.intern("<module>"),
                            .file = file,
                            .line = 4'000'000'000,
                            .fx_node = tables.strings.intern("add (call_function aten.add)"),
                            .fx_trace = tables.strings.intern("return x + y")});
  const FrameId frames[] = {inner, outer};
  const StackId stack = tables.stacks.intern(frames);
  tables.stacks.intern(std::span(frames).first(1));
  tables.contexts.intern({.compile_id = tables.strings.intern("0/1"),
                          .user_metadata = tables.strings.intern("line\nbreak"),
                          .category = 0,
                          .forward_stack = stack});
  tables.streams.intern(0xffff'ffff'ffff'ff00);
  tables.pools.intern({0, 7});
}

inline void add_sample_state(DeviceTrace& device) {
  device.has_end_state = true;
  device.segments.push_back({.address = 0x7f1c'a000'0000,
                             .size_bytes = 2 << 20,
                             .first_block = 0,
                             .block_count = 2,
                             .stack = 1,
                             .stream = 1,
                             .pool = 1,
                             .is_small = true,
                             .claimed_allocated_bytes = 512,
                             .claimed_active_bytes = 1024,
                             .claimed_requested_bytes = 1000});
  device.segments.push_back({.address = 0x7f1c'c000'0000,
                             .size_bytes = 4 << 20,
                             .first_block = 2,
                             .block_count = 1,
                             .pool = kUnknownPool,
                             .is_expandable = true});
  device.blocks.push_back({.address = 0x7f1c'a000'0000,
                           .size_bytes = 1024,
                           .requested_bytes = 1000,
                           .state = BlockState::kPendingFree});
  device.blocks.push_back({.address = 0x7f1c'a000'0400,
                           .size_bytes = 512,
                           .requested_bytes = 512,
                           .stack = 2,
                           .state = BlockState::kAllocated});
  device.blocks.push_back({.address = 0x7f1c'c000'0000,
                           .size_bytes = 4 << 20,
                           .requested_bytes = 5 << 20,
                           .state = BlockState::kInactive});
}

inline void add_sample_gpu(Trace& trace) {
  constexpr int64_t kStart = 1'795'248'641'678'827'000;
  DeviceTrace device;
  device.ordinal = 1;
  device.first_event = trace.events.size();
  const auto add = [&](EventKind kind, uint64_t address, uint64_t size, int64_t offset_ns) {
    trace.events.push_back(sample_event(kind, address, size, kStart + offset_ns));
    return &trace.events.back();
  };
  add(EventKind::kSegmentAlloc, 0x7f1c'a000'0000, 2 << 20, 0);
  add(EventKind::kAlloc, 0x7f1c'a000'0000, 1000, 1'000)->stack = 1;
  Event* other = add(EventKind::kAlloc, 0x7f1c'a000'0400, 512, 3'000);
  *other = {.time_ns = other->time_ns,
            .address = other->address,
            .size_bytes = 512,
            .stack = 2,
            .context = 1,
            .stream = 1,
            .pool = 1,
            .kind = EventKind::kAlloc};
  add(EventKind::kFreeRequested, 0x7f1c'a000'0000, 1000, 2'500)->stack = 1;
  add(EventKind::kFreeCompleted, 0x7f1c'a000'0000, 1000, 2'500)->stack = 1;
  add(EventKind::kFreeCompleted, 0x7f1c'b000'0000, 77, 9'000);  // allocated before the recording
  add(EventKind::kOom, 123'456'789, uint64_t{1} << 40, 10'000)->pool = kUnknownPool;
  add(EventKind::kSnapshot, 0, 0, 10'001);
  add(EventKind::kSegmentMap, 0x7f1c'c000'0000, 20 << 20, 10'002);
  add(EventKind::kSegmentUnmap, 0x7f1c'c000'0000, 20 << 20, 10'003);
  add(EventKind::kAnnotate, 0x7f1c'a000'0400, 512, 10'004);
  add(EventKind::kOther, ~uint64_t{0}, ~uint64_t{0}, 10'005)->context = 1;
  add(EventKind::kSegmentFree, 0x7f1c'a000'0000, 2 << 20, 10'006);
  device.event_count = trace.events.size() - device.first_event;
  device.ring_overflowed = true;
  add_sample_state(device);
  trace.devices.push_back(std::move(device));
}

inline void add_sample_host(Trace& trace) {
  DeviceTrace device;
  device.ordinal = 0;
  device.kind = DeviceKind::kHost;
  device.first_event = trace.events.size();
  // Clocks are set back, and some are far off.
  trace.events.push_back(
      sample_event(EventKind::kAlloc, 4096, 1, std::numeric_limits<int64_t>::max()));
  trace.events.push_back(
      sample_event(EventKind::kAlloc, 1, 4096, std::numeric_limits<int64_t>::min()));
  trace.events.push_back(sample_event(EventKind::kFreeCompleted, 1, 4096, 0));
  device.event_count = 3;
  trace.devices.push_back(std::move(device));
}

inline Trace sample_trace() {
  Trace trace;
  trace.has_time = true;
  trace.has_stacks = true;
  trace.has_pools = true;
  trace.origin.format = "PyTorch snapshot (pickle protocol 4, xz)";
  trace.origin.truncated_at_byte = 4711;
  trace.origin.notes = {{"unknown key 'colour' skipped", 12}, {"a note", 1}};
  trace.settings = {{"max_split_size", "-1"}, {"roundup_power2_divisions.64", "0"}, {"", ""}};
  trace.about = {{"process.pid", "4711"}, {"device.1.name", "NVIDIA H200"}};
  fill_sample_tables(trace.tables);
  add_sample_gpu(trace);
  add_sample_host(trace);
  trace.annotations = {
      {.time_ns = 1'795'248'641'678'827'500, .name = 1, .device = 1},
      {.time_ns = 1'795'248'641'678'827'400, .name = 1, .device = 1, .is_begin = false},
      {.time_ns = -1, .name = 3, .device = 0xffff'ffff}};
  return trace;
}

}  // namespace vram::trace
