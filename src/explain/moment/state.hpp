// States: everything about a device at given moments (the peak, --at, an OOM), collected for all of
// them in one pass. Pure; allocates for the live blocks.
#pragma once

#include "explain/moment/sources.hpp"
#include "explain/report.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

// The state after each of these events, or before the first one (kBeforeFirstEvent), in their
// order.
[[nodiscard]] std::vector<State> states_after(const Sources& sources,
                                              std::span<const int64_t> events);

}  // namespace vram::explain
