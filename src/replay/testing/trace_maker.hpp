// TraceMaker: traces of one device written by hand for tests, event by event, a microsecond each,
// and the state that the allocator was in after the last.
#pragma once

#include "base/bytes.hpp"
#include "replay/program.hpp"

#include <cstdint>
#include <string>

namespace vram::replay {

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
    trace_.events.push_back(event);
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
};

}  // namespace vram::replay
