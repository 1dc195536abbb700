// explain(): from a trace to its Report. A pure function: no files, no clocks, no output.
#pragma once

#include "base/result.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace vram::explain {

struct ExplainOptions {
  std::optional<uint32_t> device;   // the device to lead with
  uint32_t timeline_slices = 1000;  // of each device, or fewer if there are more than 64
  // Called as each stage of the work begins, with the share of all work before it: 0 to 1. From the
  // calling thread.
  std::function<void(std::string_view stage, double share)> progress = {};
};

// kBadInput if the trace has neither events nor segments.
[[nodiscard]] Result<> check_contents(const trace::Trace& trace);

// Errors: kNotFound if the requested device is not in the trace (the message lists the existing
// ones), and those of check_contents(). find_state() (moment/state.hpp) adds other moments.
[[nodiscard]] Result<Report> explain(const trace::Trace& trace, const ExplainOptions& options = {});

// Numbers in a recording's facts about its process and machine (Trace::about).

// Nothing: not recorded, or no number.
[[nodiscard]] std::optional<uint64_t> number_about(const trace::Trace& trace, std::string_view key);

// The device's total memory.
[[nodiscard]] std::optional<uint64_t> memory_bytes_of(const trace::Trace& trace,
                                                      const trace::DeviceTrace& device);

}  // namespace vram::explain
