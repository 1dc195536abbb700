// The moments that --at can name, and the report with the state there.
#pragma once

#include "base/result.hpp"
#include "explain/explain.hpp"

#include <cstdint>
#include <string_view>

namespace vram::cli {

enum class MomentKind { kTime, kEvent, kStep, kPeak, kOom };

struct MomentRequest {
  MomentKind kind = MomentKind::kTime;
  uint64_t value = 0;  // nanoseconds, an event's number, a step's or an OOM's index
};

// "1.5s", "250ms", "event:1234", "step:12", "peak", "oom", "oom:1".
[[nodiscard]] Result<MomentRequest> parse_moment(std::string_view text);

// explain(), with `at` of the leading device set to the state then. For a step: where most was
// requested in it.
[[nodiscard]] Result<explain::Report> explain_at(const trace::Trace& trace,
                                                 const MomentRequest& request,
                                                 explain::ExplainOptions options);

}  // namespace vram::cli
