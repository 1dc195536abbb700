// Scene: a picture as plain values, in units that are pixels at scale 1, y downwards. It is written
// as SVG (svg.hpp) and as PNG (png.hpp), which therefore look alike.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace vram::pictures {

struct Colour {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;
  bool operator==(const Colour&) const = default;
};

struct Point {
  double x = 0;
  double y = 0;
};

// The inside of a polygon that does not cross itself.
struct Area {
  std::vector<Point> outline;
  Colour colour;
  double opacity = 1;
  std::string hover = {};  // of an SVG: what a browser shows at the pointer
};

// Horizontal and vertical lines from point to point.
struct Path {
  std::vector<Point> points;
  Colour colour;
  double width = 1;
  bool is_dashed = false;
};

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };

// A line of text. `at` is on its baseline.
struct Label {
  Point at;
  std::string text;
  double size = 12;
  Colour colour;
  Anchor anchor = Anchor::kStart;
  // It has no more room than this font needs: where an SVG is shown with another font, the text is
  // made as wide as with this one.
  bool is_tight = false;
};

using Item = std::variant<Area, Path, Label>;

struct Scene {
  double width = 0;
  double height = 0;
  Colour background;
  std::string title;        // for people who can't see the picture
  std::string description;  // the same, in a sentence or two
  std::vector<Item> items;  // later ones cover earlier ones
};

[[nodiscard]] inline Area rectangle(Point corner, double width, double height, Colour colour) {
  const Point end = {corner.x + width, corner.y + height};
  return {{corner, {end.x, corner.y}, end, {corner.x, end.y}}, colour};
}

}  // namespace vram::pictures
