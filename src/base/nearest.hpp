// Finds the known word that is closest to a mistyped one. A pure function.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace vram {

// The candidate nearest to a mistyped word; empty when none is near.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<const std::string> candidates);
// ", did you mean 'x'?" for the end of an error; empty when no candidate is near.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string> candidates);

}  // namespace vram
