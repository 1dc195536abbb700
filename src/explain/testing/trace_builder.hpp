// TraceBuilder: hand-made recordings for tests, with the history they must have. Blocks come from
// an address that only grows, so every lifetime is known without a replay, and reserved bytes
// follow the live bytes' high mark.
#pragma once

#include "explain/history/history.hpp"
#include "trace/trace.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::explain::testing {

struct Made {
  trace::Trace trace;
  History history;
  [[nodiscard]] const trace::DeviceTrace& device() const { return trace.devices.front(); }
};

class TraceBuilder {
 public:
  using Block = uint32_t;  // index of its lifetime

  // Frames "file:line function", innermost first; becomes the current stack's id.
  struct Line {
    std::string_view file;
    uint32_t line;
    std::string_view function;
  };
  trace::StackId stack(std::initializer_list<Line> lines) {
    std::vector<trace::FrameId> ids;
    for (const Line& l : lines) {
      trace::Tables& t = made_.trace.tables;
      ids.push_back(
          t.frames.intern({t.strings.intern(l.function), t.strings.intern(l.file), l.line, 0, 0}));
    }
    made_.trace.has_stacks = true;
    return made_.trace.tables.stacks.intern(ids);
  }

  Block alloc(uint64_t bytes, trace::StackId stack = 0, uint64_t stream = 0) {
    const uint64_t block_bytes = (bytes + 511) / 512 * 512;
    live_ += block_bytes;
    if (live_ > reserved_) {
      const uint64_t segment =
          std::max<uint64_t>((live_ - reserved_ + (2 << 20) - 1) >> 21 << 21, 2 << 20);
      reserved_ += segment;
      push({now(), next_segment_, segment, 0, 0, 0, 0, trace::EventKind::kSegmentAlloc, {}},
           kNoLifetime);
      next_segment_ += segment;
    }
    const auto block = static_cast<Block>(made_.history.lifetimes.size());
    const trace::StreamId stream_id = made_.trace.tables.streams.intern(stream);
    Lifetime l;
    l.address = next_address_;
    l.requested_bytes = bytes;
    l.block_bytes = block_bytes;
    l.alloc_event = event();
    l.stack = stack;
    l.stream = stream_id;
    made_.history.lifetimes.push_back(l);
    push({now(), l.address, bytes, stack, 0, stream_id, 0, trace::EventKind::kAlloc, {}}, block);
    next_address_ += block_bytes;
    return block;
  }

  // A block that was there before the recording: all of them before the first event.
  Block before_recording(uint64_t bytes) {
    Lifetime l;
    l.address = next_address_;
    l.requested_bytes = bytes;
    l.block_bytes = (bytes + 511) / 512 * 512;
    next_address_ += l.block_bytes;
    live_ += l.block_bytes;
    reserved_ = std::max(reserved_, live_);
    made_.history.initial_reserved_bytes = reserved_;
    made_.history.lifetimes.push_back(l);
    ++made_.history.before_recording_count;
    return static_cast<Block>(made_.history.lifetimes.size() - 1);
  }

  void free(Block block) {
    Lifetime& l = made_.history.lifetimes[block];
    const trace::Event freed{
        now(), l.address, l.requested_bytes, 0, 0, l.stream, 0, trace::EventKind::kFreeRequested,
        {}};
    l.free_requested_event = event();
    push(freed, block);
    l.free_completed_event = event();
    push(freed, block);
    made_.trace.events.back().kind = trace::EventKind::kFreeCompleted;
    live_ -= l.block_bytes;
  }
  void free_all(std::vector<Block>* blocks) {
    for (const Block b : *blocks) free(b);
    blocks->clear();
  }
  void temporary(uint64_t bytes, trace::StackId stack = 0) { free(alloc(bytes, stack)); }

  void oom(uint64_t bytes, uint64_t device_free) {
    push({now(), device_free, bytes, 0, 0, 0, 0, trace::EventKind::kOom, {}}, kNoLifetime);
  }
  void begin(std::string_view name) { annotate(name, true); }
  void end(std::string_view name) { annotate(name, false); }
  void wait_ns(int64_t ns) { time_ns_ += ns; }
  void annotate(std::string_view name, bool is_begin) {
    made_.trace.annotations.push_back(
        {now(), made_.trace.tables.strings.intern(name), 0, is_begin, {}});
  }
  [[nodiscard]] uint32_t event() const { return static_cast<uint32_t>(made_.trace.events.size()); }
  trace::Trace& trace() { return made_.trace; }

  [[nodiscard]] Made build() {
    made_.trace.has_time = true;
    trace::DeviceTrace device;
    device.event_count = made_.trace.events.size();
    made_.trace.devices.push_back(std::move(device));
    return std::move(made_);
  }

 private:
  int64_t now() { return time_ns_ += 1000; }
  void push(const trace::Event& e, uint32_t lifetime) {
    made_.trace.events.push_back(e);
    made_.history.lifetime_of_event.push_back(lifetime);
  }

  Made made_;
  uint64_t live_ = 0;
  uint64_t reserved_ = 0;
  uint64_t next_address_ = uint64_t{1} << 40;
  uint64_t next_segment_ = uint64_t{1} << 41;
  int64_t time_ns_ = 1'700'000'000'000'000'000;
};

}  // namespace vram::explain::testing
