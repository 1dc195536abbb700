// Phases: the parts of a steady step. From the scopes inside the step if they cover it, else from
// the stacks (forward, backward, optimizer), else from the shape of the live curve: the rise to the
// peak, the fall, the rest.
#pragma once

#include "explain/history/history.hpp"
#include "explain/report.hpp"
#include "explain/site/scopes.hpp"
#include "trace/trace.hpp"

#include <vector>

namespace vram::explain {

// Medians over the steps after the warm-up, in the order of the step. Empty without steps. Linear
// in the events.
[[nodiscard]] std::vector<Phase> find_phases(const trace::Trace& trace,
                                             const trace::DeviceTrace& device,
                                             const History& history, const Scopes& scopes,
                                             const Steps& steps);

}  // namespace vram::explain
