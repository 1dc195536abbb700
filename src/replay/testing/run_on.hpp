// run_on(): a program run on the allocator of a spec, with the calls made to the driver in bytes.
// For the tests of single rules.
#pragma once

#include "base/bytes.hpp"
#include "replay/run.hpp"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::replay {

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
