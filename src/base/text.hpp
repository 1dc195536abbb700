// Text from files, for screens and JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace vram {

// Valid UTF-8 with nothing a terminal would obey: invalid bytes become U+FFFD, control characters
// are shown as \xNN (newline and tab as \n and \t), those that turn the direction of text around as
// \u202e and its like. Snapshots may hold surrogates and any byte in a path.
[[nodiscard]] std::string printable(std::string_view bytes);

// The same for JSON and CSV, where control characters are escaped by the writer: only invalid UTF-8
// is replaced.
[[nodiscard]] std::string valid_utf8(std::string_view bytes);

// The first glyph of a text that is not empty. Bytes that are no text come as U+FFFD.
struct Glyph {
  size_t length = 1;        // bytes of the text
  int columns = 1;          // 0: a mark that combines with the glyph before
  bool is_harmless = true;  // valid, and nothing that a terminal would obey
};
[[nodiscard]] Glyph first_glyph(std::string_view utf8);

// The first character of valid UTF-8 that is not empty, and the other way round.
[[nodiscard]] char32_t first_code_point(std::string_view utf8);
[[nodiscard]] std::string utf8_of(char32_t point);

// Columns a terminal needs for valid UTF-8 text (East Asian wide characters take two, combining
// marks none).
[[nodiscard]] int display_width(std::string_view utf8);

// At most `columns` columns; a longer text loses its front, replaced by "…". For paths, whose end
// is most informative.
[[nodiscard]] std::string shorten_front(std::string_view utf8, int columns);

// At most `columns` columns; a longer text loses its end, even within a word. For command lines,
// whose beginning is most informative.
[[nodiscard]] std::string shorten_end(std::string_view utf8, int columns);

// At most `max_bytes` of it, followed by "…" if something is missing. Does not read the rest: for
// texts of any length, whose width does not matter. UTF-8 characters stay complete.
[[nodiscard]] std::string limit_bytes(std::string_view utf8, size_t max_bytes);

// The text without the blanks around it.
[[nodiscard]] constexpr std::string_view trimmed(std::string_view text,
                                                 std::string_view blanks = " \t\r\n") {
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// With A to Z as a to z; other bytes stay.
[[nodiscard]] std::string ascii_lower(std::string_view text);

// Finds the known word that is closest to a mistyped one. A pure function.

// The candidate nearest to a mistyped word; empty when none is near.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<const std::string> candidates);
// ", did you mean 'x'?" for the end of an error; empty when no candidate is near.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string> candidates);

}  // namespace vram
