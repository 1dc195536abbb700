// The steps of a recording that a test made, and what grows in it.
#pragma once

#include "explain/growth/growth.hpp"
#include "explain/steps/steps.hpp"
#include "explain/testing/trace_builder.hpp"

#include <cstdint>
#include <vector>

namespace vram::explain::testing {

inline Steps steps_of(const Made& made) {
  const Scopes scopes = build_scopes(made.trace, made.device());
  return find_steps(made.trace, made.device(), made.history, scopes, made.trace.events[0].time_ns);
}

inline std::vector<Growth> growth_of(const Made& made, const Steps& steps) {
  const int64_t origin_ns = made.trace.events[0].time_ns;
  return find_growth(made.trace, made.device(), made.history, steps, origin_ns, Names()).sites;
}

inline std::vector<Growth> growth_of(const Made& made) { return growth_of(made, steps_of(made)); }

}  // namespace vram::explain::testing
