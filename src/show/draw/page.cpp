#include "show/draw/page.hpp"

#include "show/draw/line.hpp"

#include <algorithm>
#include <utility>

namespace vram::show {
namespace {

constexpr int kMinPageWidth = 60;

}  // namespace

Page::Page(const TextOptions& options, int widest)
    : options_(options), columns_(std::clamp(options.columns, kMinPageWidth, widest)) {}

void Page::heading(std::string_view title, std::string_view about) {
  blank();
  Line lead(title, Style::kHeading);
  lead.add("  ");
  paragraph(lead, about);
}

void Page::add(std::vector<Line> lines) {
  for (Line& line : lines) lines_.push_back(std::move(line));
}

void Page::paragraph(const Line& lead, std::string_view text, Style style) {
  Line line = lead;
  for (const std::string& part : wrap(text, columns_ - lead.width())) {
    line.pad_to(lead.width()).add(part, style);
    add(std::exchange(line, Line()));
  }
}

void Page::leave_out(const std::string& what) {
  if (std::ranges::find(left_out_, what) == left_out_.end()) left_out_.push_back(what);
}

std::string Page::finish() const {
  std::string out;
  for (const Line& line : lines_) {
    const std::string text = line.text(options_.colour);
    out += options_.unicode ? text : to_ascii(text);
    out += '\n';
  }
  return out;
}

}  // namespace vram::show
