// What-if: the program of a recording replayed with its own settings and with those that might have
// helped, for reports of an OOM or of much waste. So advice about settings comes from a replay, in
// bytes, and not from folklore. Replays run beside each other, a thread each; pure otherwise.
#pragma once

#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <optional>
#include <string_view>

namespace vram::explain {

// From this share of the reserved peak on, what lies unused in it is worth replays.
inline constexpr double kMinWhatIfShare = 0.10;

// Reads peaks, waste and ooms of the report. None where there is nothing to ask, and where the
// replay of the recording's own settings does not come out at the recorded peak: then no other can
// be believed either. Nor where the peak lies before the recording, unless it ran out of memory.
[[nodiscard]] std::optional<WhatIfs> find_what_ifs(const trace::Trace& trace,
                                                   const trace::DeviceTrace& device,
                                                   const DeviceReport& report);

// The replay with these settings; nullptr where none was made.
[[nodiscard]] const WhatIf* what_if(const DeviceReport& report, std::string_view allocator);
[[nodiscard]] const WhatIf* what_if_recorded(const DeviceReport& report);

}  // namespace vram::explain
