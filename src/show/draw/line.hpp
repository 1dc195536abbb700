// Line: a line of a screen as styled pieces of text. Everything in show/ is drawn as lines and
// becomes terminal text in the last step (Page::finish), so that layout uses columns and
// never sees an escape code. A plain value; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

// The meaning of a piece of text. Uses only the sixteen colours of the terminal's theme, to be
// readable on dark and light backgrounds.
enum class Style : uint8_t {
  kPlain,
  kStrong,    // the figures that matter
  kFaint,     // what can be skipped
  kHeading,   // names of sections
  kActive,    // memory in use
  kReserved,  // memory taken from the device, not in use
  kGood,
  kWarning,
  kBad,
};

class Line {
 public:
  struct Span {
    std::string text;
    Style style;
  };

  Line() = default;
  explicit Line(std::string_view text, Style style = Style::kPlain) { add(text, style); }

  Line& add(std::string_view text, Style style = Style::kPlain);
  Line& add(const Line& other);
  // Pads with spaces up to this column, if the line is shorter.
  Line& pad_to(int columns);
  [[nodiscard]] int width() const { return width_; }
  [[nodiscard]] bool empty() const { return spans_.empty(); }
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }

  // At most `columns` wide: "…" replaces the front of names (their end is most informative) or the
  // end of prose.
  [[nodiscard]] Line without_front(int columns) const;
  [[nodiscard]] Line without_end(int columns) const;
  // Truncates at any character, for text that is no prose.
  [[nodiscard]] Line cut(int columns) const;
  // Without the newline and without trailing spaces.
  [[nodiscard]] std::string text(bool colour) const;

 private:
  std::vector<Span> spans_;
  int width_ = 0;
};

// Breaking running text into lines of a width.

// Greedy, at spaces, and between Chinese or Japanese characters, but for their punctuation; a word
// wider than a line is split. A newline in the text always breaks. Never
// returns an empty list: empty text is one empty line.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, int columns);

// ASCII replacements of all glyphs, for terminals without UTF-8. Layout uses Unicode; this is the
// last step and keeps all columns.

// ASCII of the same width: drawing characters and punctuation by their likeness, letters of other
// scripts as '?'. If messages are translated, wide letters stay, since these are the user's.
[[nodiscard]] std::string to_ascii(std::string_view utf8);

}  // namespace vram::show
