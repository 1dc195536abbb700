// The line that every screen about a recording begins with.
#pragma once

#include "show/draw/page.hpp"

#include <cstdint>
#include <string>

namespace vram::show {

// The path, with its format on the same line if it fits, else below.
void draw_file(const std::string& path, const std::string& format, uint64_t file_bytes, Page& page);

}  // namespace vram::show
