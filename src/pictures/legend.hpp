// The legend of a picture: what its colours mean, with bytes. Pure.
#pragma once

#include "pictures/scene.hpp"
#include "pictures/theme.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::pictures {

struct LegendRow {
  std::string name;
  uint64_t bytes = 0;
  Colour colour;
  bool is_line = false;  // else an area
};

struct LegendPlace {
  Point corner;
  double width = 0;
  double bottom = 0;
};

[[nodiscard]] double legend_height(size_t rows, double width);
// In one column, or in several if they have room side by side. Of more rows than fit, the smallest
// areas are one row.
void draw_legend(const LegendPlace& place, const std::string& head, std::vector<LegendRow> rows,
                 const Theme& theme, Scene& scene);

// The name of a group of a dimension (pages::Groups::id), as people read it.
[[nodiscard]] std::string group_text(std::string_view dimension, std::string_view name);
// "by line of your code"
[[nodiscard]] std::string group_title(std::string_view dimension);

}  // namespace vram::pictures
