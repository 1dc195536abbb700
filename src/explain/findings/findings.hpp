// Findings: the important results of an explanation, with evidence and advice. The last stage of
// explain/: reads a finished DeviceReport, and the trace for its settings and end state. Each rule
// has a threshold, and every advice states when it does not apply: wrong advice is worse than none.
// What needs no action is no finding, and findings with the same remedy are one.
#pragma once

#include "base/language.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <string>
#include <vector>

namespace vram::explain {

// Thresholds as shares of the peak (reserved bytes for waste, else requested bytes). The one for
// waste is kMinWasteShare (whatif/what_if.hpp).
inline constexpr double kMinCacheShare = 0.05;
inline constexpr double kMinHolderShare = 0.25;
// Of the device's memory, what others must hold to be named at an OOM.
inline constexpr double kMinOthersShare = 0.10;
inline constexpr double kMinUnseenShare = 0.25;  // alive before the recording began
// A leak is reported if it would take this share of the peak in a run of this many steps.
inline constexpr double kLongRunSteps = 100'000;
inline constexpr double kMinLeakShare = 0.05;
// The number of steps in which a leak doubles the peak is stated up to this limit.
inline constexpr uint64_t kMaxDoublingSteps = 10'000;

// Whether the bytes reach this share of the whole.
[[nodiscard]] inline bool matters(uint64_t bytes, double share, uint64_t whole) {
  return bytes > 0 && static_cast<double>(bytes) >= share * static_cast<double>(whole);
}

// Out of memory first, problems of the recording last; the others by bytes, descending. `patterns`:
// those of waste/patterns.hpp.
[[nodiscard]] std::vector<Finding> find_findings(const trace::Trace& trace,
                                                 const trace::DeviceTrace& device,
                                                 const DeviceReport& report,
                                                 std::vector<Finding> patterns = {});

// The call that records stacks, in the words of advice.
inline constexpr const char* kRecordStacks = tr_later(
    "torch.cuda.memory._record_memory_history(stacks=\"python\") before the model is built");

// The findings about leaks, and that there is no verdict if no frees were recorded. In
// findings_leaks.cpp.
void add_leak_findings(const trace::Trace& trace, const DeviceReport& report,
                       std::vector<Finding>* findings);

// The findings about memory that is reserved and not used: fragmentation, cache, pending frees,
// rounding, streams, and settings that make it worse. In findings_waste.cpp.
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
