#include "show/sections/file.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

namespace vram::show {

void draw_file(const std::string& path, const std::string& format, uint64_t file_bytes,
               Page& page) {
  const Line name(printable(path), Style::kStrong);
  const std::string about = fmt::format("{}, {}", printable(format), format_bytes(file_bytes));
  Line line = name;
  line.add("  ").add(about, Style::kFaint);
  if (line.width() <= page.columns()) {
    page.add(std::move(line));
  } else {
    page.add(name.without_front(page.columns()));
    page.paragraph(Line(), about, Style::kFaint);
  }
}

}  // namespace vram::show
