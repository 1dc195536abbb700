// The moments that --at and other callers can name, and the state of a device then.
#pragma once

#include "base/result.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vram::explain {

enum class MomentKind { kTime, kEvent, kStep, kPeak, kOom };

struct MomentRequest {
  MomentKind kind = MomentKind::kTime;
  uint64_t value = 0;  // nanoseconds, an event's number, a step's or an OOM's index
};

// "1.5s", "250ms", "event:1234", "step:12", "peak", "oom", "oom:1". `option`: what the error calls
// the text.
[[nodiscard]] Result<MomentRequest> parse_moment(std::string_view option, std::string_view text);

// The state of a device after the last event up to the moment; for a step, where most was requested
// in it. Replays the events of the device, unless the report has the state. `report`: of this
// trace. `device`: an index in Report::devices. kNotFound if the recording has no such moment; the
// message begins with the moment.
[[nodiscard]] Result<State> find_state(const trace::Trace& trace, const Report& report,
                                       size_t device, const MomentRequest& request);

}  // namespace vram::explain
