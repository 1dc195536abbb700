// Scopes: the named regions of one device, rebuilt from begin and end annotations and mapped to its
// events; used by steps, phases and the breakdown by scope. Annotations only have host times and
// come from several threads, so begins are matched to ends by name and by the regions open inside
// them, nesting follows from the times, and missing ones are repaired and counted.
#pragma once

#include "trace/trace.hpp"

#include <cstdint>
#include <vector>

namespace vram::explain {

inline constexpr uint32_t kNoScope = 0xffffffff;

struct Scope {
  trace::StringId name = 0;
  int64_t begin_ns = 0;  // unix time
  int64_t end_ns = 0;
  uint64_t first_event = 0;  // the device's events [first_event, end_event) are inside
  uint64_t end_event = 0;
  uint32_t parent = kNoScope;
  uint32_t depth = 0;
  bool closed = true;  // false: its end is missing and was guessed
};

struct Scopes {
  std::vector<Scope> all;  // by begin, parents before children
  uint64_t missing_ends = 0;
  uint64_t unmatched_ends = 0;  // dropped

  // The innermost scope around an event, kNoScope outside all.
  [[nodiscard]] uint32_t innermost_at(uint64_t event) const;

  struct Span {
    uint64_t first_event = 0;
    uint32_t scope = kNoScope;
  };
  std::vector<Span> spans;  // by first_event: from here on this scope is innermost
};

// n log n in the annotations, linear in the events. Empty where events carry no time. Devices that
// have no annotations of their own (pinned host memory) take those of the device that has most.
[[nodiscard]] Scopes build_scopes(const trace::Trace& trace, const trace::DeviceTrace& device);

}  // namespace vram::explain
