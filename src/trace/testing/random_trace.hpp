// RandomTrace: a small recording with nearly anything that one can have: events that need not fit
// each other, names that mean something elsewhere, numbers of all sizes. The same seed gives the
// same recording.
#pragma once

#include "trace/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace vram::trace {

class RandomTrace {
 public:
  explicit RandomTrace(uint32_t seed) : random_(seed) {}

  Trace make() {
    trace_.has_time = chance(4);
    trace_.has_pools = chance(2);
    fill_tables();
    for (uint32_t ordinal = 0; ordinal < 3; ++ordinal)
      for (const DeviceKind kind : {DeviceKind::kGpu, DeviceKind::kHost})
        if (chance(3)) add_device(kind, ordinal);
    std::ranges::stable_sort(trace_.devices, {}, &DeviceTrace::kind);
    for (unsigned i = below(5); i-- > 0;)
      trace_.annotations.push_back({.time_ns = time(),
                                    .name = below(trace_.tables.strings.size()),
                                    .device = below(3),
                                    .is_begin = chance(2)});
    const auto string = [&] { return below(trace_.tables.strings.size()); };
    for (unsigned i = below(3); i-- > 0;)
      trace_.figures.push_back(
          {.time_ns = time(), .value = number(), .name = string(), .device = below(3)});
    for (unsigned i = below(3); i-- > 0;)
      trace_.marks.push_back({.time_ns = time(),
                              .duration_ns = static_cast<int64_t>(number() >> 1),
                              .size_bytes = number(),
                              .name = string(),
                              .group = string(),
                              .device = chance(2) ? below(3) : kNoDevice,
                              .kind = static_cast<MarkKind>(below(kMarkKinds))});
    constexpr std::string_view kValues[] = {"-1",
                                            "007",
                                            "0.5",
                                            "1e+300",
                                            "True",
                                            "None",
                                            "abc",
                                            "-0.0",
                                            "[1, 0]",
                                            "[a, 1]",
                                            "",
                                            "1e5",
                                            "18446744073709551615"};
    for (unsigned i = below(6); i-- > 0;)
      trace_.settings.push_back({fmt::format("{}{}", chance(2) ? "group." : "key", i),
                                 std::string(kValues[below(std::size(kValues))])});
    std::ranges::stable_sort(trace_.settings, {}, &Setting::key);
    for (unsigned i = below(4); i-- > 0;)
      trace_.about.push_back({fmt::format("device.{}", i), text()});
    return std::move(trace_);
  }

 private:
  uint32_t below(uint64_t end) {
    return static_cast<uint32_t>(random_() % std::max<uint64_t>(end, 1));
  }
  // In all but one of so many cases.
  bool chance(unsigned of) { return below(of) != 0; }
  int64_t time() {
    return trace_.has_time ? static_cast<int64_t>(random_() >> (1 + below(60))) : 0;
  }
  uint64_t number() { return random_() >> below(64); }

  // Also such as mean something elsewhere.
  std::string text() {
    constexpr std::string_view kTexts[] = {
        "action", "frames",          "vram",      "vram_version", "START",
        ".",      "a\"b'\\\n\t\x01", "层 · é",    "__proto__",    "unknown",
        "alloc",  "</script>",       "os\nsystem"};
    std::string text(kTexts[below(std::size(kTexts))]);
    return chance(2) ? text : text + std::string(below(400), 'x') + std::to_string(below(9));
  }

  void fill_tables() {
    Tables& tables = trace_.tables;
    for (unsigned i = 0; i < 8; ++i) tables.strings.intern(text());
    const auto string = [&] { return below(tables.strings.size()); };
    for (unsigned i = 0; i < 6; ++i) {
      Frame frame{.function = string(), .file = string(), .line = below(1000)};
      if (!chance(3)) frame.fx_node = tables.strings.intern("relu (call_function torch.relu)");
      if (!chance(3)) frame.fx_trace = string();
      tables.frames.intern(frame);
    }
    FrameId texts = tables.frames.intern({.function = tables.strings.intern("model.py:12 f")});
    for (unsigned i = 0; i < 4; ++i) {
      std::vector<FrameId> frames;
      for (unsigned k = 1 + below(5); k-- > 0;) frames.push_back(below(tables.frames.size()));
      tables.stacks.intern(frames);
    }
    const StackId forward = tables.stacks.intern({&texts, 1});
    for (unsigned i = 0; i < 4; ++i)
      tables.contexts.intern({.compile_id = string(),
                              .user_metadata = string(),
                              .category = string(),
                              .forward_stack = chance(2) ? forward : 0});
    for (unsigned i = 0; i < 2; ++i) tables.streams.intern(number());
    for (unsigned i = 0; i < 2; ++i) tables.pools.intern({number(), number()});
  }

  void add_device(DeviceKind kind, uint32_t ordinal) {
    DeviceTrace device;
    device.ordinal = ordinal;
    device.kind = kind;
    device.first_event = trace_.events.size();
    device.ring_overflowed = !chance(3);
    for (unsigned i = 1 + below(40); i-- > 0;) add_event();
    device.event_count = trace_.events.size() - device.first_event;
    device.has_end_state = chance(3);
    if (device.has_end_state)
      for (unsigned i = below(4); i-- > 0;) add_segment(device);
    std::ranges::sort(device.segments, {}, &Segment::address);
    trace_.devices.push_back(std::move(device));
  }

  void add_event() {
    Event event;
    event.kind = static_cast<EventKind>(1 + below(10));
    event.time_ns = time();
    // Few, so that frees meet allocations.
    event.address = chance(8) ? 0x7000'0000 + 512 * below(8) : number();
    event.size_bytes = chance(8) ? 1 + below(4096) : number();
    if (is_segment_event(event.kind)) event.size_bytes = 2 << 20;
    event.stream = static_cast<StreamId>(below(trace_.tables.streams.size()));
    if (trace_.has_pools)
      event.pool =
          chance(4) ? static_cast<PoolId>(below(trace_.tables.pools.size())) : kUnknownPool;
    event.context = chance(2) ? below(trace_.tables.contexts.size()) : 0;
    event.stack = chance(2) ? below(trace_.tables.stacks.size()) : 0;
    trace_.events.push_back(event);
  }

  void add_segment(DeviceTrace& device) {
    Segment segment{.address = number() & ~uint64_t{0xfff},
                    .first_block = device.blocks.size(),
                    .block_count = 1 + below(5),
                    .stack = below(trace_.tables.stacks.size()),
                    .stream = static_cast<StreamId>(below(trace_.tables.streams.size())),
                    .is_small = chance(2),
                    .is_expandable = chance(2),
                    .claimed_allocated_bytes = number() >> 1,
                    .claimed_active_bytes = number() >> 1,
                    .claimed_requested_bytes = number() >> 1};
    for (uint32_t i = 0; i < segment.block_count; ++i) {
      const uint64_t bytes = 512 * (1 + below(100));
      device.blocks.push_back({.address = segment.address + segment.size_bytes,
                               .size_bytes = bytes,
                               .requested_bytes = bytes - below(512),
                               .stack = below(trace_.tables.stacks.size()),
                               .state = static_cast<BlockState>(below(3))});
      segment.size_bytes += bytes;
    }
    device.segments.push_back(segment);
  }

  std::mt19937_64 random_;
  Trace trace_;
};

}  // namespace vram::trace
