// A flame graph of a moment: where the memory that was live then had been allocated. Callers are
// above what they call, and as wide as their bytes. Pure.
#pragma once

#include "base/result.hpp"
#include "explain/moment/device_view.hpp"
#include "explain/report.hpp"
#include "pictures/scene.hpp"
#include "pictures/timeline.hpp"

namespace vram::pictures {

// The frame's height is the largest: frames that are deeper are left out, and the picture says how
// many. kBadInput: the recording has no stacks.
[[nodiscard]] Result<Scene> draw_flame(const explain::DeviceView& view, const explain::State& state,
                                       const Frame& frame);

}  // namespace vram::pictures
