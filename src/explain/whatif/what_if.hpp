// What-if: the program of a recording replayed with its own settings and with those that might have
// helped, for reports of an OOM or of much waste. So advice about settings comes from a replay, in
// bytes, and not from folklore. The replays are made as those of `vram tune`, and one of these
// settings is recommended where tune ranks it before the recorded ones and it takes less memory: so
// the report never names a setting that tune would not, nor one that tune finds useless. Replays
// run beside each other, a thread each; pure otherwise.
#pragma once

#include "explain/report.hpp"
#include "replay/baseline.hpp"
#include "trace/trace.hpp"

#include <optional>
#include <string_view>

namespace vram::explain {

// From this share of the reserved peak on, what lies unused in it is worth replays, and a finding.
inline constexpr double kMinWasteShare = 0.05;

// Reads peaks, waste, ooms and verdict of the report; fills its what_if, and the limit of its ooms.
// what_if stays empty where there is nothing to ask, where next to nothing was recorded, and where
// the replay of the recording's own settings does not come out at the recorded peak: then no other
// can be believed either. Nor is it filled where the peak lies before the recording, unless the
// program ran out of memory.
void add_what_ifs(const trace::Trace& trace, const trace::DeviceTrace& device,
                  const replay::Baseline& baseline, DeviceReport& report);

// The replay with these settings; nullptr where none was made.
[[nodiscard]] const WhatIf* what_if(const DeviceReport& report, std::string_view allocator);
[[nodiscard]] const WhatIf* what_if_recorded(const DeviceReport& report);
[[nodiscard]] const WhatIf* what_if_recommended(const DeviceReport& report);

}  // namespace vram::explain
