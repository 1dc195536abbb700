// Text that comes from files and goes to screens and JSON.
#pragma once

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

// Columns a terminal needs for valid UTF-8 text (East Asian wide characters take two, combining
// marks none).
[[nodiscard]] int display_width(std::string_view utf8);

// At most `columns` columns, the front replaced by "…" where it is longer: the end of a path says
// most.
[[nodiscard]] std::string shorten_front(std::string_view utf8, int columns);

// The same from the other side, in the middle of a word if need be: the beginning of a command line
// says most.
[[nodiscard]] std::string shorten_end(std::string_view utf8, int columns);

// The candidate nearest to a mistyped word; empty when none is near.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<const std::string> candidates);

}  // namespace vram
