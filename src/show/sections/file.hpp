// The line that every screen about a recording begins with.
#pragma once

#include "show/page.hpp"

#include <cstdint>
#include <string>

namespace vram::show {

// The path, and its format beside it where there is room, else below.
void draw_file(const std::string& path, const std::string& format, uint64_t file_bytes, Page& page);

}  // namespace vram::show
