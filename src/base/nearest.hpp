// Finds the known word that is closest to a mistyped one. A pure function.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace vram {

// The candidate nearest to a mistyped word; empty when none is near.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<const std::string> candidates);

}  // namespace vram
