// A picture as PNG, for where SVG is not shown. Pure.
#pragma once

#include "base/result.hpp"
#include "pictures/scene.hpp"

#include <string>

namespace vram::pictures {

// `scale`: pixels a unit. kBadInput: a side has more than kMaxPixels (ink.hpp) pixels.
[[nodiscard]] Result<std::string> png_of(const Scene& scene, double scale);

}  // namespace vram::pictures
