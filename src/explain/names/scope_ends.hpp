// ScopeEnds: when the scope of an allocation ended, derived from the scope paths of the events: at
// the first later event outside it. So it works for every recording whose events have scopes, also
// without threads and clocks. Linear in the events; empty if no path contains a part of a step.
#pragma once

#include "explain/names/scope_path.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

class ScopeEnds {
 public:
  ScopeEnds(const trace::Tables& tables, std::span<const trace::Event> events);

  [[nodiscard]] const ScopePath& path(trace::ContextId context) const { return paths_[context]; }
  // The first later event outside the extent of the event's path, or the number of events. 0 if the
  // path contains no part.
  [[nodiscard]] uint32_t end_of(uint32_t event) const { return ends_.empty() ? 0 : ends_[event]; }

 private:
  void find_ends(const trace::Tables& tables, std::span<const trace::Event> events);

  std::vector<ScopePath> paths_;  // by ContextId
  std::vector<uint32_t> ends_;    // by event
};

}  // namespace vram::explain
