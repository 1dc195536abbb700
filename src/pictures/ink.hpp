// Ink: where the pixels of a picture are covered: by the inside of a polygon, and by text in the
// font that the program contains. Also how wide that text is, for layouts. Pure.
//
// The font has Latin, Greek and Cyrillic letters, and the Chinese ones of vram's own messages
// (tools/font.py); other glyphs are drawn as a box.
#pragma once

#include "pictures/scene.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::pictures {

// Of dashed lines, in units.
inline constexpr int kDashOn = 5;
inline constexpr int kDashOff = 4;

// In units. `utf8` may be any text; it is measured as printable() shows it.
[[nodiscard]] double text_width(std::string_view utf8, double size);
// At most so wide: "…" replaces the front of a longer one, since the end of a name tells most.
[[nodiscard]] std::string fit_front(std::string_view utf8, double size, double width);
[[nodiscard]] std::string fit_end(std::string_view utf8, double size, double width);
// Whether the font has each of its glyphs.
[[nodiscard]] bool has_glyphs(std::string_view utf8);

// How much of each pixel is covered, 0 to 255, of the pixels from (left, top) on.
struct Ink {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
  std::vector<uint8_t> coverage;
};

// `points`: in pixels, which are below kMaxPixels.
inline constexpr int kMaxPixels = 4000;
[[nodiscard]] Ink ink_of(const std::vector<Point>& points);
// Glyph by glyph. `size` and `baseline`: in pixels.
[[nodiscard]] std::vector<Ink> ink_of_text(std::string_view utf8, double size, Point baseline);

}  // namespace vram::pictures
