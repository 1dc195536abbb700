#include "pictures/theme.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace vram::pictures {
namespace {

constexpr Colour rgb(uint32_t number) {
  return {static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8 & 0xFFU),
          static_cast<uint8_t>(number & 0xFFU)};
}

constexpr Theme kLight = {.groups = {rgb(0x4477aa), rgb(0xee8866), rgb(0x44aa99), rgb(0xddb84d),
                                     rgb(0xaa4499), rgb(0x77bbdd), rgb(0xcc6677), rgb(0x66994d),
                                     rgb(0x8877cc), rgb(0xb5bd61), rgb(0x882255)},
                          .rest = rgb(0xb9bec6),
                          .ink = rgb(0x1c2733),
                          .muted = rgb(0x5c6875),
                          .grid = rgb(0xe4e8ec),
                          .surface = rgb(0xffffff),
                          .used = rgb(0x1a5fb4),
                          .danger = rgb(0xc01c28),
                          .steps = {rgb(0xd9e4f0), rgb(0xe8eff7)},
                          .hue_saturation = 0.45,
                          .hue_lightness = 0.87};

constexpr Theme kDark = {.groups = {rgb(0x5b8fc7), rgb(0xe6855e), rgb(0x3fae9b), rgb(0xd3b04a),
                                    rgb(0xb65ba8), rgb(0x79b8d8), rgb(0xcf6f80), rgb(0x7bab62),
                                    rgb(0x9a8cdb), rgb(0xa9b15a), rgb(0xa8467a)},
                         .rest = rgb(0x5a636e),
                         .ink = rgb(0xe8ecf1),
                         .muted = rgb(0x98a4b1),
                         .grid = rgb(0x29313a),
                         .surface = rgb(0x14181d),
                         .used = rgb(0x7db4f5),
                         .danger = rgb(0xff7b82),
                         .steps = {rgb(0x2d3a49), rgb(0x25303c)},
                         .hue_saturation = 0.28,
                         .hue_lightness = 0.27};

}  // namespace

const Theme& theme(bool is_dark) { return is_dark ? kDark : kLight; }

Colour colour_of(const Theme& theme, size_t group) {
  return group < theme.groups.size() ? theme.groups.at(group) : theme.rest;
}

Colour colour_of_name(const Theme& theme, std::string_view name) {
  constexpr size_t kMaxRead = 200;
  uint32_t hash = 0;
  for (const char c : name.substr(0, kMaxRead)) hash = hash * 31 + static_cast<uint8_t>(c);
  const double hue = hash % 360;
  const double reach =
      theme.hue_saturation * std::min(theme.hue_lightness, 1 - theme.hue_lightness);
  const auto part = [&](double at) {
    const double k = std::fmod(at + hue / 30, 12);
    const double value =
        theme.hue_lightness - reach * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    return static_cast<uint8_t>(std::lround(255 * value));
  };
  return {part(0), part(8), part(4)};
}

}  // namespace vram::pictures
