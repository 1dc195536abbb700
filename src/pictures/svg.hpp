// A picture as SVG, whose text is text: it can be searched, copied and translated. Names of a
// recording are data in it: they are escaped, and what they say about the direction of text ends
// with them. Pure.
#pragma once

#include "pictures/scene.hpp"

#include <string>

namespace vram::pictures {

[[nodiscard]] std::string svg_of(const Scene& scene);

}  // namespace vram::pictures
