// ProgramBuilder: programs written by hand for tests, op by op. Each op is one millisecond and one
// event after the last.
#pragma once

#include "replay/program.hpp"

#include <cstdint>

namespace vram::replay {

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

}  // namespace vram::replay
