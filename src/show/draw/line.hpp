// Line: one line of a screen as styled pieces of text. Everything show/ draws is made of lines
// first and becomes terminal text last (ascii.hpp, Page::finish), so that layout is measured in
// columns and never sees an escape code. A plain value; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

// What a piece of text means. Only the sixteen colours of the terminal's own theme are used, so
// that it reads on dark and on light.
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
  // Spaces up to this column; nothing where the line is already longer.
  Line& pad_to(int columns);
  [[nodiscard]] int width() const { return width_; }
  [[nodiscard]] bool empty() const { return spans_.empty(); }
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }

  // At most `columns` wide: "…" stands for the front of names (their end tells most) or the end of
  // prose.
  [[nodiscard]] Line without_front(int columns) const;
  [[nodiscard]] Line without_end(int columns) const;
  // The end again, for what is no prose: cut in the middle of a word.
  [[nodiscard]] Line cut(int columns) const;
  // Without the newline and without trailing spaces.
  [[nodiscard]] std::string text(bool colour) const;

 private:
  std::vector<Span> spans_;
  int width_ = 0;
};

}  // namespace vram::show
