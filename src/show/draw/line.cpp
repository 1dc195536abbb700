#include "show/draw/line.hpp"

#include "base/language.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

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

namespace {

// The longest beginning of `word` that fits, in whole characters and at least one.
size_t fitting_prefix(std::string_view word, int columns) {
  size_t end = 0;
  while (end < word.size()) {
    size_t next = end + 1;
    while (next < word.size() && (static_cast<unsigned char>(word[next]) & 0xC0U) == 0x80U) ++next;
    if (end > 0 && display_width(word.substr(0, next)) > columns) break;
    end = next;
  }
  return end;
}

class Wrapper {
 public:
  explicit Wrapper(int columns) : columns_(std::max(columns, 1)) {}

  // A word, or a part of one that may begin a line; `gap` spaces separate it from the text before.
  void add_word(std::string_view word, int gap) {
    if (line_.empty()) gap = 0;
    if (width_ + gap + display_width(word) > columns_ && !line_.empty()) {
      break_line();
      gap = 0;
    }
    while (display_width(word) > columns_) {
      const size_t end = fitting_prefix(word, columns_);
      lines_.emplace_back(word.substr(0, end));
      word.remove_prefix(end);
    }
    line_.append(static_cast<size_t>(gap), ' ').append(word);
    width_ = display_width(line_);
  }
  void break_line() {
    lines_.push_back(std::move(line_));
    line_.clear();
    width_ = 0;
  }
  std::vector<std::string> finish() {
    if (!line_.empty() || lines_.empty()) break_line();
    return std::move(lines_);
  }

 private:
  int columns_;
  int width_ = 0;
  std::string line_;
  std::vector<std::string> lines_;
};

// Of Chinese and Japanese text: what begins no line, and what ends none.
constexpr std::string_view kClosing = "，。、；：！？）】》」』”’…%)";
constexpr std::string_view kOpening = "（【《「『“‘(";

// The first part of a word after which a line may end: Chinese and Japanese have no spaces, so a
// line may end after each of their characters, but for punctuation.
size_t breakable_prefix(std::string_view word) {
  const auto glyph_at = [&](size_t at) {
    return word.substr(at, first_glyph(word.substr(at)).length);
  };
  size_t end = glyph_at(0).size();
  while (end < word.size()) {
    const std::string_view next = glyph_at(end);
    size_t before = end - 1;
    while ((static_cast<unsigned char>(word[before]) & 0xC0U) == 0x80U) --before;
    const std::string_view last = word.substr(before, end - before);
    const bool is_wide = display_width(last) > 1 || display_width(next) > 1;
    if (is_wide && kClosing.find(next) == std::string_view::npos &&
        kOpening.find(last) == std::string_view::npos)
      break;
    end += next.size();
  }
  return end;
}

}  // namespace

std::vector<std::string> wrap(std::string_view text, int columns) {
  Wrapper wrapper(columns);
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    int gap = 1;
    for (std::string_view word = text.substr(begin, end - begin); !word.empty();) {
      const size_t part = breakable_prefix(word);
      wrapper.add_word(word.substr(0, part), std::exchange(gap, 0));
      word.remove_prefix(part);
    }
    if (end < text.size() && text[end] == '\n') wrapper.break_line();
    begin = end + 1;
  }
  return wrapper.finish();
}

namespace {

struct StandIn {
  std::string_view glyph;
  char ascii;
};

constexpr std::array kStandIns = {
    StandIn{"█", '#'},  StandIn{"▇", '#'},  StandIn{"▆", '='}, StandIn{"▅", '='}, StandIn{"▄", '-'},
    StandIn{"▃", '-'},  StandIn{"▂", '_'},  StandIn{"▁", '_'}, StandIn{"▏", ' '}, StandIn{"▎", ' '},
    StandIn{"▍", ' '},  StandIn{"▌", '='},  StandIn{"▋", '='}, StandIn{"▊", '='}, StandIn{"▉", '='},
    StandIn{"░", ':'},  StandIn{"▒", '%'},  StandIn{"▓", '+'}, StandIn{"╱", '/'}, StandIn{"│", '|'},
    StandIn{"┤", '+'},  StandIn{"└", '+'},  StandIn{"┬", '+'}, StandIn{"─", '-'}, StandIn{"╵", '|'},
    StandIn{"╷", '|'},  StandIn{"▼", 'v'},  StandIn{"✖", 'X'}, StandIn{"✔", '*'}, StandIn{"▲", '!'},
    StandIn{"→", '>'},  StandIn{"·", '-'},  StandIn{"…", '~'}, StandIn{"–", '-'}, StandIn{"—", '-'},
    StandIn{"×", 'x'},  StandIn{"÷", '/'},  StandIn{"µ", 'u'}, StandIn{"≥", '>'}, StandIn{"≤", '<'},
    StandIn{"’", '\''}, StandIn{"‘", '\''}, StandIn{"“", '"'}, StandIn{"”", '"'}, StandIn{"←", '<'},
    StandIn{"├", '+'},  StandIn{"┌", '+'},  StandIn{"┐", '+'}, StandIn{"┘", '+'}, StandIn{"•", '*'},
};

size_t sequence_length(std::string_view utf8) {
  size_t length = 1;
  while (length < utf8.size() && (static_cast<unsigned char>(utf8[length]) & 0xC0U) == 0x80U) {
    ++length;
  }
  return length;
}

std::string stand_in(std::string_view glyph) {
  const auto* found = std::ranges::find(kStandIns, glyph, &StandIn::glyph);
  if (found != kStandIns.end()) return {found->ascii};
  if (is_translated() && display_width(glyph) == 2) return std::string(glyph);
  return std::string(static_cast<size_t>(display_width(glyph)), '?');
}

}  // namespace

std::string to_ascii(std::string_view utf8) {
  std::string out;
  out.reserve(utf8.size());
  while (!utf8.empty()) {
    const size_t length = sequence_length(utf8);
    const bool is_ascii = static_cast<unsigned char>(utf8.front()) < 0x80;
    out += is_ascii ? std::string(utf8.substr(0, length)) : stand_in(utf8.substr(0, length));
    utf8.remove_prefix(length);
  }
  return out;
}

}  // namespace vram::show
