// ScopeEnds: when the scope in which something was allocated was left, told by the paths that the
// events themselves carry: the first later event that is not within it. So it works for every
// recording whose events say their scope, also where threads and clocks are not known. Linear in
// the events; nothing where no path says a part of a step.
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
  // The first event after this one outside of the extent of its path; the count of the events where
  // none is. Of events whose path says no part: 0.
  [[nodiscard]] uint32_t end_of(uint32_t event) const { return ends_.empty() ? 0 : ends_[event]; }

 private:
  void find_ends(const trace::Tables& tables, std::span<const trace::Event> events);

  std::vector<ScopePath> paths_;  // by ContextId
  std::vector<uint32_t> ends_;    // by event
};

}  // namespace vram::explain
