// What a frame's number stands for. Python's and native frames are numbered apart, since stacks of
// both kinds may be in one file: native ones in place of Python's that could not be had in time,
// and those that were captured before a recording of another kind began.
#pragma once

#include "record/stores.hpp"

namespace vram::record {

inline constexpr FrameNumber kNativeFrame = FrameNumber{1} << 31;  // set in numbers of native ones

// A number that stands for nothing is "?".
[[nodiscard]] FrameText describe_frame(FrameNumber frame);

}  // namespace vram::record
