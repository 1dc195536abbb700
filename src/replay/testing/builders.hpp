// Programs and traces written by hand for tests.
#pragma once

#include "base/bytes.hpp"
#include "replay/program.hpp"
#include "replay/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::replay {

// ProgramBuilder: programs, op by op. Each op is one millisecond and one event after the last.
class ProgramBuilder {
 public:
  uint32_t alloc(uint64_t bytes, trace::StreamId stream = 0, trace::PoolId pool = 0) {
    const uint32_t block = program_.block_count++;
    add({.size_bytes = bytes, .block = block, .stream = stream, .pool = pool});
    return block;
  }
  void free(uint32_t block) { add({.block = block, .kind = OpKind::kFree}); }
  void free_later(uint32_t block) { add({.block = block, .kind = OpKind::kFreeLater}); }
  void complete(uint32_t block) { add({.block = block, .kind = OpKind::kComplete}); }
  void refused(uint64_t bytes) {
    add({.size_bytes = bytes, .block = program_.block_count++, .kind = OpKind::kRefused});
  }
  // Requests the sizes of `tried` in turn until it gets one, and `least` if it gets none.
  uint32_t choose(uint32_t number, std::initializer_list<uint64_t> tried, uint64_t least) {
    program_.choices.push_back({.first_op = static_cast<uint32_t>(program_.ops.size()),
                                .refused_ops = static_cast<uint32_t>(tried.size()),
                                .number = number});
    for (const uint64_t bytes : tried) refused(bytes);
    return alloc(least);
  }
  void empty_cache() { add({.kind = OpKind::kEmptyCache}); }
  void initial_segment(const InitialSegment& segment) {
    program_.initial_segments.push_back(segment);
  }
  [[nodiscard]] Program build(uint32_t streams = 3) {
    program_.stream_count = streams;
    for (uint32_t s = 0; s < streams; ++s) program_.stream_handles.push_back(s * 4096);
    program_.duration_ns = static_cast<int64_t>(program_.ops.size()) * 1'000'000;
    return std::move(program_);
  }

 private:
  void add(Op op) {
    op.event = static_cast<uint32_t>(program_.ops.size());
    op.time_ns = int64_t{op.event} * 1'000'000;
    program_.ops.push_back(op);
  }
  Program program_;
};

// run_on(): a program run on the allocator of a spec, with the calls made to the driver in bytes.
// For the tests of single rules.

using Calls = std::vector<std::pair<DriverCall::Kind, uint64_t>>;

struct Outcome {
  ReplayResult result;
  Calls calls;
};

inline Outcome run_on(std::string_view text, const Program& program,
                      const ReplayOptions& options = {}) {
  const AllocatorSpec spec = parse_spec(text).value();
  std::vector<DriverCall> log;
  Outcome outcome{run(program, *find_peer(spec.name), spec, options, &log), {}};
  for (const DriverCall& call : log) outcome.calls.emplace_back(call.kind, call.size_bytes);
  return outcome;
}

// None of the specs is accepted, and each error names the valid keys.
inline void expect_refused(std::initializer_list<const char*> specs, const std::string& keys) {
  for (const char* text : specs) {
    const auto spec = parse_spec(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_THAT(spec.error().message, ::testing::HasSubstr("valid keys of " + keys));
  }
}

inline ReplayOptions capacity(uint64_t bytes) { return {.capacity_bytes = bytes}; }

inline ReplayOptions with_lag(int64_t milliseconds) { return {.lag_ns = milliseconds * 1'000'000}; }

// TraceMaker: traces of one device, event by event, a microsecond each, and the state that the
// allocator was in after the last.
class TraceMaker {
 public:
  void add(trace::EventKind kind, uint64_t address, uint64_t bytes, trace::StreamId stream = 0,
           trace::PoolId pool = 0) {
    trace::Event event;
    event.kind = kind;
    event.address = address;
    event.size_bytes = bytes;
    event.stream = stream;
    event.pool = pool;
    event.time_ns = 1'000'000 + static_cast<int64_t>(trace_.events.size()) * 1000;
    event.context = context_;
    trace_.events.push_back(event);
  }
  // A segment of the request's size.
  void take(uint64_t address, uint64_t bytes) {
    add(trace::EventKind::kSegmentAlloc, address, bytes);
    add(trace::EventKind::kAlloc, address, bytes);
  }
  void free(uint64_t address, uint64_t bytes, trace::StreamId stream = 0) {
    add(trace::EventKind::kFreeRequested, address, bytes, stream);
    add(trace::EventKind::kFreeCompleted, address, bytes, stream);
  }
  void end_segment(uint64_t address, uint64_t bytes, bool expandable = false,
                   trace::StreamId stream = 0, trace::PoolId pool = 0) {
    device_.has_end_state = true;
    device_.segments.push_back({.address = address,
                                .size_bytes = bytes,
                                .first_block = device_.blocks.size(),
                                .stream = stream,
                                .pool = pool,
                                .is_small = bytes == 2 * kMiB,
                                .is_expandable = expandable});
  }
  void end_block(uint64_t address, uint64_t bytes, trace::BlockState state) {
    device_.blocks.push_back(
        {.address = address, .size_bytes = bytes, .requested_bytes = bytes, .state = state});
    ++device_.segments.back().block_count;
  }
  void setting(const std::string& key, const std::string& value) {
    trace_.settings.push_back({key, value});
  }
  // What follows is part of a choice.
  void choice(const std::string& name) {
    trace::StringTable& strings = trace_.tables.strings;
    context_ = trace_.tables.contexts.intern(
        {.user_metadata = strings.intern(name), .category = strings.intern(trace::kChoice)});
  }
  // Adds streams with increasing handles; the first is the default stream.
  void streams(uint64_t count) {
    for (uint64_t s = 1; s < count; ++s) trace_.tables.streams.intern(s * 4096);
  }
  Program make() {
    device_.event_count = trace_.events.size();
    return make_program(trace_, device_);
  }

 private:
  trace::Trace trace_;
  trace::DeviceTrace device_;
  trace::ContextId context_ = 0;
};

}  // namespace vram::replay
