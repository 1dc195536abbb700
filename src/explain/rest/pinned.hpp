// Pinned host memory that piles up, from figures that a program's allocator of it reported at its
// steps: for recordings without that allocator's events. Pure.
#pragma once

#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <optional>

namespace vram::explain {

// Of the recording; reported with its first GPU. docs/findings.md has the definition.
[[nodiscard]] std::optional<Finding> find_pinned_host(const trace::Trace& trace,
                                                      const trace::DeviceTrace& device);

}  // namespace vram::explain
