// The collectives and copies of a recording, summed by name and tied to steps. Pure.
#pragma once

#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>

namespace vram::explain {

[[nodiscard]] Marks find_marks(const trace::Trace& trace, const trace::DeviceTrace& device,
                               const Steps& steps, int64_t origin_unix_ns);

}  // namespace vram::explain
