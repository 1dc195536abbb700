// ProgramBuilder: programs written by hand for tests, op by op. Each op is one millisecond and one
// event after the last.
#pragma once

#include "base/bytes.hpp"
#include "replay/program.hpp"
#include "replay/run.hpp"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

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

inline ReplayOptions capacity(uint64_t bytes) {
  ReplayOptions options;
  options.capacity_bytes = bytes;
  return options;
}

}  // namespace vram::replay
