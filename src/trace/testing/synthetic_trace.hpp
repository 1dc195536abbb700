// A made-up recording that behaves like training: steps of a forward pass that keeps activations, a
// backward pass that frees them in reverse, temporaries in between, reused addresses, microsecond
// times. For tests and benchmarks; the same seed gives the same trace.
#pragma once

#include "trace/trace.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

namespace vram::trace {

struct SyntheticOptions {
  size_t events = 10'000;  // at least; the last step is finished
  uint32_t devices = 1;
  bool with_stacks = false;
  bool with_pools = false;
  uint64_t seed = 1;
};

class SyntheticDevice {
 public:
  SyntheticDevice(Trace& trace, const SyntheticOptions& options, uint32_t ordinal)
      : trace_(trace), options_(options), random_(options.seed + ordinal) {
    const int layers = 24;
    for (int i = 0; i < layers; ++i)
      sizes_.push_back((1 + random_() % 4096) * 1024 + random_() % 3);
    device_.ordinal = ordinal;
    device_.first_event = trace.events.size();
    device_.has_end_state = true;
    next_address_ += uint64_t{ordinal} << 44;
  }

  void run() {
    for (size_t i = 0; i < 40; ++i) weights_.push_back(alloc(4096 + 512 * i));
    while (trace_.events.size() - device_.first_event < options_.events) step();
    finish();
  }

 private:
  void step() {
    annotate("step", true);
    std::vector<Event> kept;
    for (const uint64_t size : sizes_) {
      const Event temporary = alloc(size / 2 + random_() % 2 * 512);
      kept.push_back(alloc(size));
      free(temporary);
    }
    while (!kept.empty()) {
      const Event gradient = alloc(kept.back().size_bytes);
      free(kept.back());
      free(gradient);
      kept.pop_back();
    }
    annotate("step", false);
  }

  Event alloc(uint64_t size) {
    const uint64_t rounded = (size + 511) / 512 * 512;
    auto& cached = cache_[rounded];
    if (cached.empty()) {
      add(EventKind::kSegmentAlloc, next_address_, rounded);
      cached.push_back(next_address_);
      next_address_ += rounded;
    }
    const uint64_t address = cached.back();
    cached.pop_back();
    return add(EventKind::kAlloc, address, size);
  }

  void free(const Event& block) {
    add(EventKind::kFreeRequested, block);
    add(EventKind::kFreeCompleted, block);
    cache_[(block.size_bytes + 511) / 512 * 512].push_back(block.address);
  }

  Event add(EventKind kind, uint64_t address, uint64_t size) {
    Event event;
    event.address = address;
    event.size_bytes = size;
    event.stream = random_() % 16 == 0 ? side_stream_ : StreamId{0};
    event.pool = options_.with_pools ? pool_ : PoolId{0};
    if (options_.with_stacks) event.stack = stack();
    return add(kind, event);
  }

  Event add(EventKind kind, Event event) {
    time_ns_ +=
        kind == EventKind::kFreeCompleted ? 0 : static_cast<int64_t>(1 + random_() % 40) * 1000;
    event.kind = kind;
    event.time_ns = time_ns_;
    trace_.events.push_back(event);
    return event;
  }

  StackId stack() {
    const auto line = static_cast<uint32_t>(random_() % 50);
    const StringId file = trace_.tables.strings.intern("train.py");
    const FrameId frames[] = {
        trace_.tables.frames.intern(
            {.function = trace_.tables.strings.intern("forward"), .file = file, .line = line}),
        trace_.tables.frames.intern(
            {.function = trace_.tables.strings.intern("main"), .file = file, .line = 7})};
    return trace_.tables.stacks.intern(frames);
  }

  void annotate(const char* name, bool is_begin) {
    Annotation annotation;
    annotation.time_ns = time_ns_;
    annotation.name = trace_.tables.strings.intern(name);
    annotation.device = device_.ordinal;
    annotation.is_begin = is_begin;
    trace_.annotations.push_back(annotation);
  }

  void finish() {
    for (const Event& weight : weights_) {
      Block block;
      block.address = weight.address;
      block.size_bytes = (weight.size_bytes + 511) / 512 * 512;
      block.requested_bytes = weight.size_bytes;
      block.stack = weight.stack;
      block.state = BlockState::kAllocated;
      Segment segment;
      segment.address = block.address;
      segment.size_bytes = block.size_bytes;
      segment.first_block = device_.blocks.size();
      segment.block_count = 1;
      segment.claimed_allocated_bytes = segment.claimed_active_bytes = block.size_bytes;
      segment.claimed_requested_bytes = block.requested_bytes;
      device_.segments.push_back(segment);
      device_.blocks.push_back(block);
    }
    device_.event_count = trace_.events.size() - device_.first_event;
    trace_.devices.push_back(std::move(device_));
  }

  Trace& trace_;
  const SyntheticOptions& options_;
  std::mt19937_64 random_;
  DeviceTrace device_;
  std::vector<uint64_t> sizes_;
  std::vector<Event> weights_;
  std::map<uint64_t, std::vector<uint64_t>> cache_;
  uint64_t next_address_ = 0x7f00'0000'0000;
  int64_t time_ns_ = 1'795'248'641'678'827'000;
  StreamId side_stream_ = trace_.tables.streams.intern(0x5581'0000'1230);
  PoolId pool_ = trace_.tables.pools.intern({0, 1});
};

inline Trace synthetic_trace(const SyntheticOptions& options) {
  Trace trace;
  trace.has_time = true;
  trace.has_stacks = options.with_stacks;
  trace.has_pools = options.with_pools;
  trace.origin.format = "synthetic";
  trace.settings = {{"max_split_size", "-1"}, {"expandable_segments", "False"}};
  trace.about = {{"process.pid", "4711"}};
  for (uint32_t ordinal = 0; ordinal < options.devices; ++ordinal)
    SyntheticDevice(trace, options, ordinal).run();
  return trace;
}

}  // namespace vram::trace
