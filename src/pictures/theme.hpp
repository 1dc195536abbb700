// The colours of pictures, those of the HTML report (web/src/charts/palette.ts).
#pragma once

#include "pages/overview.hpp"
#include "pictures/scene.hpp"

#include <array>
#include <cstddef>
#include <string_view>

namespace vram::pictures {

struct Theme {
  std::array<Colour, pages::kShownGroups> groups;
  Colour rest;  // all other groups together
  Colour ink;
  Colour muted;
  Colour grid;
  Colour surface;
  Colour used;  // of the device, by all processes
  Colour danger;
  std::array<Colour, 2> steps;  // in turns
  double hue_saturation = 0;
  double hue_lightness = 0;
};

[[nodiscard]] const Theme& theme(bool is_dark);

// The colour of a group by its rank.
[[nodiscard]] Colour colour_of(const Theme& theme, size_t group);
// A calm colour for a name, always the same.
[[nodiscard]] Colour colour_of_name(const Theme& theme, std::string_view name);

}  // namespace vram::pictures
