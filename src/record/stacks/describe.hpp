// Describes frame numbers. Python and native frames are numbered separately, since a file may
// contain both kinds: native stacks if Python's could not be captured in time, and stacks captured
// before a recording of another kind started.
#pragma once

#include "record/stores.hpp"

namespace vram::record {

inline constexpr FrameNumber kNativeFrame = FrameNumber{1} << 31;  // set in numbers of native ones

// "?" for an unknown number.
[[nodiscard]] FrameText describe_frame(FrameNumber frame);

}  // namespace vram::record
