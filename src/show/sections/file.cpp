#include "show/sections/file.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

namespace vram::show {

void draw_file(const std::string& path, const std::string& format, uint64_t file_bytes,
               Page& page) {
  const Line name(printable(path), Style::kStrong);
  std::string about = printable(format);
  if (file_bytes > 0) about += ", " + format_bytes(file_bytes);  // unknown of a pipe
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
