// Findings: what of an explanation is worth a person's time, with the evidence and what to do. The
// last stage of explain/: reads a finished DeviceReport, and the trace for its settings and end
// state. Each rule is silent below its threshold, and every advice says when it does not apply: a
// wrong advice costs more than a missing one. What needs no action is no finding, and what has one
// remedy is one finding.
#pragma once

#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <vector>

namespace vram::explain {

// Shares of the peak (reserved bytes for waste, requested bytes otherwise) from which something is
// told. That of waste is kMinWasteShare (whatif/what_if.hpp).
inline constexpr double kMinCacheShare = 0.05;
inline constexpr double kMinHolderShare = 0.25;
// Of the device's memory, what others must hold to be named at an OOM.
inline constexpr double kMinOthersShare = 0.10;
inline constexpr double kMinUnseenShare = 0.25;  // alive before the recording began
// A leak is told when a long run of this many steps would lose this share of the peak to it.
inline constexpr double kLongRunSteps = 100'000;
inline constexpr double kMinLeakShare = 0.05;
// In how many steps a leak doubles the peak is told up to here: later is of no use to anybody.
inline constexpr uint64_t kMaxDoublingSteps = 10'000;

// Whether the bytes reach that share of the whole.
[[nodiscard]] inline bool matters(uint64_t bytes, double share, uint64_t whole) {
  return bytes > 0 && static_cast<double>(bytes) >= share * static_cast<double>(whole);
}

// What ran out of memory first, what is wrong with the recording last; between them ordered by
// bytes, largest first.
[[nodiscard]] std::vector<Finding> find_findings(const trace::Trace& trace,
                                                 const trace::DeviceTrace& device,
                                                 const DeviceReport& report);

}  // namespace vram::explain
