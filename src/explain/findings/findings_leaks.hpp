// The findings about leaks: what growth/ found, with its rate, its evidence and what it comes to:
// when the device is full, or the peak has doubled.
#pragma once

#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <vector>

namespace vram::explain {

// A leak is reported if it would take this share of the peak in a run of this many steps.
inline constexpr double kLongRunSteps = 100'000;
inline constexpr double kMinLeakShare = 0.05;
// The number of steps in which a leak doubles the peak is stated up to this limit.
inline constexpr uint64_t kMaxDoublingSteps = 10'000;

// Adds one finding for each leak; and that there is no verdict, if the recording contains no frees.
void add_leak_findings(const trace::Trace& trace, const DeviceReport& report,
                       std::vector<Finding>* findings);

}  // namespace vram::explain
