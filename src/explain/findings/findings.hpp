// Findings: the important results of an explanation, with evidence and advice. The last stage of
// explain/: reads a finished DeviceReport, and the trace for its settings and end state. Each rule
// has a threshold, and every advice states when it does not apply: wrong advice is worse than none.
// What needs no action is no finding, and findings with the same remedy are one. findings.cpp has
// the rules about running out of memory, caches, large holders and the recording itself, and puts
// all in order; leaks and unused memory have files of their own.
#pragma once

#include "base/language.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <vector>

namespace vram::explain {

// Thresholds as shares of the peak of requested bytes.
inline constexpr double kMinCacheShare = 0.05;
inline constexpr double kMinHolderShare = 0.25;
inline constexpr double kMinUnseenShare = 0.25;  // alive before the recording began
// Of the device's memory, what others must hold to be named at an OOM.
inline constexpr double kMinOthersShare = 0.10;

// Whether the bytes reach this share of the whole.
[[nodiscard]] inline bool matters(uint64_t bytes, double share, uint64_t whole) {
  return bytes > 0 && static_cast<double>(bytes) >= share * static_cast<double>(whole);
}

// The call that records stacks, in the words of advice.
inline constexpr const char* kRecordStacks = tr_later(
    "torch.cuda.memory._record_memory_history(stacks=\"python\") before the model is built");

// Out of memory first, problems of the recording last; the others by bytes, descending. `patterns`:
// those of waste/patterns.hpp.
[[nodiscard]] std::vector<Finding> find_findings(const trace::Trace& trace,
                                                 const trace::DeviceTrace& device,
                                                 const DeviceReport& report,
                                                 std::vector<Finding> patterns = {});

}  // namespace vram::explain
