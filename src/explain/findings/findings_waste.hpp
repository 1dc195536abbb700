// The findings about memory that is reserved and not used: fragmentation, cache, pending frees,
// rounding, streams, and settings that make it worse. Their threshold is kMinWasteShare
// (whatif/what_if.hpp) of the reserved peak.
#pragma once

#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::explain {

void add_waste_findings(const trace::Trace& trace, const trace::DeviceTrace& device,
                        const DeviceReport& report, std::vector<Finding>* findings);

// The setting of PyTorch's allocator that replays recommend (whatif/), as advice in words, with the
// result of its replay and its conditions. One text for all findings, so that a report names one
// setting and one gain. Empty if none is recommended.
[[nodiscard]] std::string recommended_setting(const trace::Trace& trace,
                                              const DeviceReport& report);

// Reserved bytes at the peak that the recommended setting saves; 0 if none is recommended, or if
// the program ran out of memory without it.
[[nodiscard]] uint64_t recommended_saves(const DeviceReport& report);

}  // namespace vram::explain
