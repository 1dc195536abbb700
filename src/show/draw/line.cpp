#include "show/draw/line.hpp"

#include "base/text.hpp"
#include "show/draw/wrap.hpp"

#include <algorithm>

namespace vram::show {
namespace {

std::string_view escape_of(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kStrong:
      return "\x1b[1m";
    case Style::kFaint:
      return "\x1b[2m";
    case Style::kHeading:
      return "\x1b[1m";
    case Style::kActive:
      return "\x1b[36m";
    case Style::kReserved:
      return "\x1b[94m";
    case Style::kGood:
      return "\x1b[32m";
    case Style::kWarning:
      return "\x1b[33m";
    case Style::kBad:
      return "\x1b[1;31m";
  }
  return "";
}

constexpr std::string_view kReset = "\x1b[0m";

}  // namespace

Line& Line::add(std::string_view text, Style style) {
  if (text.empty()) return *this;
  width_ += display_width(text);
  if (!spans_.empty() && spans_.back().style == style) {
    spans_.back().text += text;
  } else {
    spans_.push_back({std::string(text), style});
  }
  return *this;
}

Line& Line::add(const Line& other) {
  for (const Span& span : other.spans_) add(span.text, span.style);
  return *this;
}

Line& Line::pad_to(int columns) {
  if (columns > width_) add(std::string(static_cast<size_t>(columns - width_), ' '));
  return *this;
}

Line Line::without_front(int columns) const {
  int excess = std::max(width_ - columns, 0);
  Line result;
  for (const Span& span : spans_) {
    const int width = display_width(span.text);
    const std::string shorter = shorten_front(span.text, std::max(width - excess, 1));
    excess -= width - display_width(shorter);
    result.add(shorter, span.style);
  }
  return result;
}

Line Line::without_end(int columns) const {
  Line result;
  for (const Span& span : spans_) {
    const int room = columns - result.width();
    if (display_width(span.text) > room) {
      return room > 1 ? result.add(wrap(span.text, room - 1).front() + "…", span.style) : result;
    }
    result.add(span.text, span.style);
  }
  return result;
}

Line Line::cut(int columns) const {
  Line result;
  for (const Span& span : spans_) {
    const int room = columns - result.width();
    result.add(shorten_end(span.text, room), span.style);
    if (display_width(span.text) > room) break;
  }
  return result;
}

std::string Line::text(bool colour) const {
  size_t last = spans_.size();
  while (last > 0 && spans_[last - 1].text.find_last_not_of(' ') == std::string::npos) --last;
  std::string out;
  for (size_t i = 0; i < last; ++i) {
    const Span& span = spans_[i];
    const std::string_view escape = colour ? escape_of(span.style) : "";
    std::string_view visible = span.text;
    if (i + 1 == last) visible = visible.substr(0, visible.find_last_not_of(' ') + 1);
    out += escape;
    out += visible;
    if (!escape.empty()) out += kReset;
  }
  return out;
}

}  // namespace vram::show
