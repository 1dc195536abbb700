// What-if: replays a recorded program with its own settings and with those that might help, for
// reports with an OOM or much waste. So advice about settings is based on a replay, in bytes. The
// replays are the same as those of `vram tune`, and a setting is recommended if tune ranks it
// before the recorded ones and it takes less memory: so the report never recommends a setting that
// tune would not. Replays run in parallel, one thread each; otherwise pure.
#pragma once

#include "explain/report.hpp"
#include "replay/baseline.hpp"
#include "trace/trace.hpp"

#include <optional>
#include <string_view>

namespace vram::explain {

// From this share of the reserved peak on, unused memory is worth replays and a finding.
inline constexpr double kMinWasteShare = 0.05;
// A replay of the recorded settings that misses the recorded peak by more proves that something
// else decided: pools that the trace does not name, other programs on the device.
inline constexpr double kMaxReplayError = 0.02;

// Reads peaks, waste, ooms and verdict of the report; fills its what_if, and the limit of its ooms.
// what_if stays empty if there is nothing to improve, if almost nothing was recorded, and if the
// replay of the recorded settings does not reproduce the recorded peak, since other replays would
// not be reliable either. It also stays empty if the peak is before the recording, unless the
// program ran out of memory.
void add_what_ifs(const trace::Trace& trace, const trace::DeviceTrace& device,
                  const replay::Baseline& baseline, DeviceReport& report);

// The replay with these settings; nullptr where none was made.
[[nodiscard]] const WhatIf* what_if(const DeviceReport& report, std::string_view allocator);
[[nodiscard]] const WhatIf* what_if_recorded(const DeviceReport& report);
[[nodiscard]] const WhatIf* what_if_recommended(const DeviceReport& report);

}  // namespace vram::explain
