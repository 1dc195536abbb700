#include "pictures/ink.hpp"

#include "base/result.hpp"
#include "base/text.hpp"
#include "pictures/fonts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#define STBTT_STATIC
#define STB_TRUETYPE_IMPLEMENTATION
#include <stb/stb_truetype.h>

namespace vram::pictures {
namespace {

constexpr std::string_view kEllipsis = "…";

class Face {
 public:
  explicit Face(std::span<const uint8_t> file) {
    VRAM_CHECK(stbtt_InitFont(&info_, file.data(), 0) != 0);
  }
  // 0: it has no such glyph.
  [[nodiscard]] int glyph(char32_t point) const {
    return stbtt_FindGlyphIndex(&info_, static_cast<int>(point));
  }
  [[nodiscard]] double advance(int glyph, double size) const {
    int units = 0;
    stbtt_GetGlyphHMetrics(&info_, glyph, &units, nullptr);
    return static_cast<double>(units) * static_cast<double>(scale(size));
  }
  // `size`: of an em.
  [[nodiscard]] float scale(double size) const {
    return stbtt_ScaleForMappingEmToPixels(&info_, static_cast<float>(size));
  }
  [[nodiscard]] Ink ink(int glyph, double size, Point origin) const;

 private:
  stbtt_fontinfo info_{};
};

Ink Face::ink(int glyph, double size, Point origin) const {
  const double whole_x = std::floor(origin.x);
  const double whole_y = std::floor(origin.y);
  const auto shift_x = static_cast<float>(origin.x - whole_x);
  const auto shift_y = static_cast<float>(origin.y - whole_y);
  const float by = scale(size);
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
  stbtt_GetGlyphBitmapBoxSubpixel(&info_, glyph, by, by, shift_x, shift_y, &left, &top, &right,
                                  &bottom);
  Ink ink{left + static_cast<int>(whole_x),
          top + static_cast<int>(whole_y),
          right - left,
          bottom - top,
          {}};
  if (ink.width <= 0 || ink.height <= 0) return {};
  ink.coverage.resize(static_cast<size_t>(ink.width) * static_cast<size_t>(ink.height));
  stbtt_MakeGlyphBitmapSubpixel(&info_, ink.coverage.data(), ink.width, ink.height, ink.width, by,
                                by, shift_x, shift_y, glyph);
  return ink;
}

struct Glyphic {
  const Face* face = nullptr;
  int glyph = 0;
};

// In the first face that has it, else the box of the first one.
Glyphic find_glyph(char32_t point) {
  static const std::array kFaces = {Face(latin_font()), Face(han_font())};
  for (const Face& face : kFaces) {
    if (const int glyph = face.glyph(point); glyph != 0) return {&face, glyph};
  }
  return {&kFaces.front(), 0};
}

// Calls each(code point, bytes) for the glyphs of a printable text.
template <typename Each>
void for_each_glyph(std::string_view text, Each&& each) {
  while (!text.empty()) {
    const size_t length = first_glyph(text).length;
    each(first_code_point(text), length);
    text.remove_prefix(length);
  }
}

double advance_of(char32_t point, double size) {
  const Glyphic found = find_glyph(point);
  return found.face->advance(found.glyph, size);
}

// As much of the glyphs, in order, as `width` has room for; in bytes.
size_t fitting_bytes(const std::vector<std::pair<double, size_t>>& glyphs, double width) {
  size_t bytes = 0;
  for (const auto& [advance, length] : glyphs) {
    if (advance > width) break;
    width -= advance;
    bytes += length;
  }
  return bytes;
}

std::vector<std::pair<double, size_t>> measured(std::string_view text, double size) {
  std::vector<std::pair<double, size_t>> glyphs;
  for_each_glyph(text, [&](char32_t point, size_t length) {
    glyphs.emplace_back(advance_of(point, size), length);
  });
  return glyphs;
}

}  // namespace

double text_width(std::string_view utf8, double size) {
  double width = 0;
  for_each_glyph(printable(utf8),
                 [&](char32_t point, size_t) { width += advance_of(point, size); });
  return width;
}

std::string fit_front(std::string_view utf8, double size, double width) {
  std::string text = printable(utf8);
  if (text_width(text, size) <= width) return text;
  auto glyphs = measured(text, size);
  std::ranges::reverse(glyphs);
  const size_t kept = fitting_bytes(glyphs, width - text_width(kEllipsis, size));
  return kept == 0 ? "" : std::string(kEllipsis) + text.substr(text.size() - kept);
}

std::string fit_end(std::string_view utf8, double size, double width) {
  std::string text = printable(utf8);
  if (text_width(text, size) <= width) return text;
  const size_t kept = fitting_bytes(measured(text, size), width - text_width(kEllipsis, size));
  return kept == 0 ? "" : text.substr(0, kept) + std::string(kEllipsis);
}

bool has_glyphs(std::string_view utf8) {
  bool has = true;
  for_each_glyph(printable(utf8),
                 [&](char32_t point, size_t) { has = has && find_glyph(point).glyph != 0; });
  return has;
}

Ink ink_of(const std::vector<Point>& points) {
  if (points.empty()) return {};
  // Vertices are 16-bit numbers: eighths of pixels.
  constexpr int kParts = 8;
  static_assert(kMaxPixels * kParts <= std::numeric_limits<short>::max());
  std::vector<stbtt_vertex> vertices;
  const auto add = [&](unsigned char type, Point point) {
    const auto part = [](double value) {
      return static_cast<short>(std::lround(std::clamp(value, 0.0, double{kMaxPixels}) * kParts));
    };
    vertices.push_back({part(point.x), part(point.y), 0, 0, 0, 0, type, 0});
  };
  add(STBTT_vmove, points.front());
  for (size_t i = 1; i < points.size(); ++i) add(STBTT_vline, points[i]);
  add(STBTT_vline, points.front());
  const auto [left, right] = std::ranges::minmax(vertices, {}, &stbtt_vertex::x);
  const auto [top, bottom] = std::ranges::minmax(vertices, {}, &stbtt_vertex::y);
  Ink ink{left.x / kParts, top.y / kParts, 0, 0, {}};
  ink.width = (right.x + kParts - 1) / kParts - ink.left;
  ink.height = (bottom.y + kParts - 1) / kParts - ink.top;
  if (ink.width <= 0 || ink.height <= 0) return {};
  ink.coverage.resize(static_cast<size_t>(ink.width) * static_cast<size_t>(ink.height));
  stbtt__bitmap bitmap{ink.width, ink.height, ink.width, ink.coverage.data()};
  constexpr float kScale = 1.0F / kParts;
  stbtt_Rasterize(&bitmap, 0.35F, vertices.data(), static_cast<int>(vertices.size()), kScale,
                  kScale, 0, 0, ink.left, ink.top, 0, nullptr);
  return ink;
}

std::vector<Ink> ink_of_text(std::string_view utf8, double size, Point baseline) {
  std::vector<Ink> inks;
  for_each_glyph(printable(utf8), [&](char32_t point, size_t) {
    const Glyphic found = find_glyph(point);
    inks.push_back(found.face->ink(found.glyph, size, baseline));
    baseline.x += found.face->advance(found.glyph, size);
  });
  return inks;
}

}  // namespace vram::pictures
