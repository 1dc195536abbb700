// explain(): from a trace to its Report. A pure function: no files, no clocks, no output.
#pragma once

#include "base/result.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <optional>

namespace vram::explain {

struct ExplainOptions {
  std::optional<int64_t>
      at_ns;  // also explain this moment (since the first event; event number without a clock)
  std::optional<uint32_t> device;  // the device to lead with
  uint32_t timeline_slices = 1000;
};

// Errors: kNotFound when the asked device or moment is not in the trace (the message lists what
// is), kBadInput when the trace has neither events nor segments.
[[nodiscard]] Result<Report> explain(const trace::Trace& trace, const ExplainOptions& options = {});

}  // namespace vram::explain
