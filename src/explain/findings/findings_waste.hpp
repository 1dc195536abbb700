// The findings about memory that is reserved and not used: fragmentation, cache, pending frees,
// rounding, streams, and settings that make it worse. A part of findings.cpp, which calls it.
#pragma once

#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <vector>

namespace vram::explain {

void add_waste_findings(const trace::Trace& trace, const trace::DeviceTrace& device,
                        const DeviceReport& report, std::vector<Finding>* findings);

}  // namespace vram::explain
