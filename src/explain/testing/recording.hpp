// Recording: a trace of one device written event by event with chosen addresses, for tests of the
// replay. (TraceBuilder, beside it, makes traces together with their history, for tests of what
// comes after.)
#pragma once

#include "trace/trace.hpp"

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace vram::explain::testing {

class Recording {
 public:
  Recording() {
    trace_.has_time = true;
    trace_.devices.emplace_back();
  }

  Recording& add(trace::EventKind kind, uint64_t address, uint64_t size_bytes,
                 trace::StreamId stream = 0) {
    time_ns_ += 1000;
    trace_.events.push_back({.time_ns = time_ns_,
                             .address = address,
                             .size_bytes = size_bytes,
                             .stream = stream,
                             .kind = kind});
    ++trace_.devices[0].event_count;
    return *this;
  }
  Recording& alloc(uint64_t address, uint64_t bytes) {
    return add(trace::EventKind::kAlloc, address, bytes);
  }
  Recording& request(uint64_t address, uint64_t bytes) {
    return add(trace::EventKind::kFreeRequested, address, bytes);
  }
  Recording& complete(uint64_t address, uint64_t bytes) {
    return add(trace::EventKind::kFreeCompleted, address, bytes);
  }
  Recording& free(uint64_t address, uint64_t bytes) {
    return request(address, bytes).complete(address, bytes);
  }
  Recording& segment(uint64_t address, uint64_t bytes) {
    return add(trace::EventKind::kSegmentAlloc, address, bytes);
  }
  Recording& segment_free(uint64_t address, uint64_t bytes) {
    return add(trace::EventKind::kSegmentFree, address, bytes);
  }
  Recording& map(uint64_t address, uint64_t bytes) {
    return add(trace::EventKind::kSegmentMap, address, bytes);
  }
  Recording& unmap(uint64_t address, uint64_t bytes) {
    return add(trace::EventKind::kSegmentUnmap, address, bytes);
  }
  // The last event is of a segment of vram's pool.
  Recording& of_vram() {
    trace::Tables& tables = trace_.tables;
    const trace::StringId vram = tables.strings.intern(trace::kVramPool);
    trace_.events[trace_.events.size() - 1].context = tables.contexts.intern({.category = vram});
    return *this;
  }
  Recording& wait_ns(int64_t duration_ns) {
    time_ns_ += duration_ns;
    return *this;
  }

  // The end state: a segment with its blocks in address order. The sums it claims are those of its
  // blocks.
  struct End {
    uint64_t size_bytes;
    uint64_t requested_bytes = 0;  // 0: free
    trace::BlockState state = trace::BlockState::kAllocated;
  };
  Recording& end_segment(uint64_t address, std::initializer_list<End> blocks,
                         bool is_expandable = false) {
    trace::DeviceTrace& device = trace_.devices[0];
    device.has_end_state = true;
    trace::Segment segment{
        .address = address, .first_block = device.blocks.size(), .is_expandable = is_expandable};
    for (const End& end : blocks) {
      const auto state = end.requested_bytes == 0 ? trace::BlockState::kInactive : end.state;
      device.blocks.push_back({.address = address + segment.size_bytes,
                               .size_bytes = end.size_bytes,
                               .requested_bytes = end.requested_bytes,
                               .state = state});
      segment.size_bytes += end.size_bytes;
      ++segment.block_count;
      segment.claimed_requested_bytes += end.requested_bytes;
      if (state != trace::BlockState::kInactive) segment.claimed_active_bytes += end.size_bytes;
      if (state == trace::BlockState::kAllocated) {
        segment.claimed_allocated_bytes += end.size_bytes;
      }
    }
    segment.is_small = segment.size_bytes == uint64_t{2} << 20;
    device.segments.push_back(segment);
    return *this;
  }

  [[nodiscard]] trace::Trace& trace() { return trace_; }
  [[nodiscard]] trace::DeviceTrace& device() { return trace_.devices[0]; }

 private:
  trace::Trace trace_;
  int64_t time_ns_ = 1'700'000'000'000'000'000;
};

}  // namespace vram::explain::testing
