// Made-up recordings of a training step, event by event, for tests of chain_of().
#pragma once

#include "trace/trace.hpp"

#include <cstdint>
#include <string_view>
#include <utility>

namespace vram::plan::testing {

class StepWriter {
 public:
  struct Block {
    uint64_t address = 0;
    uint64_t bytes = 0;
  };

  StepWriter() {
    trace_.has_time = true;
    trace_.devices.emplace_back();
  }

  // What follows happens in this scope: "forward/Net/h.0".
  void scope(std::string_view path) {
    trace::Context context;
    context.user_metadata = trace_.tables.strings.intern(path);
    context_ = trace_.tables.contexts.intern(context);
  }

  Block alloc(uint64_t bytes) {
    const uint64_t rounded = (bytes + 511) / 512 * 512;
    const Block block{next_address_, bytes};
    next_address_ += rounded;
    push(trace::EventKind::kSegmentAlloc, {block.address, rounded});
    push(trace::EventKind::kAlloc, block);
    return block;
  }
  void free(const Block& block) { push(trace::EventKind::kFreeCompleted, block); }
  void temporary(uint64_t bytes) { free(alloc(bytes)); }

  void name(const Block& block, std::string_view name, std::string_view category) {
    trace::Context context;
    context.user_metadata = trace_.tables.strings.intern(name);
    context.category = trace_.tables.strings.intern(category);
    const trace::ContextId scope = context_;
    context_ = trace_.tables.contexts.intern(context);
    push(trace::EventKind::kAnnotate, block);
    context_ = scope;
  }
  void wait_ns(uint64_t ns) { time_ns_ += static_cast<int64_t>(ns); }

  [[nodiscard]] trace::Trace finish() {
    trace_.devices[0].event_count = trace_.events.size();
    return std::move(trace_);
  }

 private:
  void push(trace::EventKind kind, const Block& block) {
    trace::Event event;
    event.time_ns = time_ns_;
    event.address = block.address;
    event.size_bytes = block.bytes;
    event.context = context_;
    event.kind = kind;
    trace_.events.push_back(event);
  }

  trace::Trace trace_;
  trace::ContextId context_ = 0;
  uint64_t next_address_ = uint64_t{1} << 40;
  int64_t time_ns_ = 1'700'000'000'000'000'000;
};

}  // namespace vram::plan::testing
