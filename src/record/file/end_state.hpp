// EndState: an allocator's own list of its memory at the end of a file, with which readers check
// the events. Used only by the flusher.
#pragma once

#include "record/file/live_memory.hpp"
#include "trace/event.hpp"

#include <span>
#include <vector>

namespace vram::record {

class EndState {
 public:
  // A record of Op::kHeld*; segments, each before its parts, in any order.
  void add(const Record& record, const LiveMemory& live, trace::StreamId stream);

  [[nodiscard]] std::span<const trace::Segment> segments() const { return segments_; }
  [[nodiscard]] std::span<const trace::Block> blocks() const { return blocks_; }

 private:
  void add_part(const Record& record, const LiveMemory& live);

  std::vector<trace::Segment> segments_;
  std::vector<trace::Block> blocks_;
};

}  // namespace vram::record
