// The fonts of pictures, as files (.ttf) in the program. tools/font.py makes them; the licence of
// both is Apache-2.0.
#pragma once

#include <cstdint>
#include <span>

namespace vram::pictures {

// Roboto: Latin, Greek and Cyrillic letters.
[[nodiscard]] std::span<const uint8_t> latin_font();
// Droid Sans Fallback: the Chinese characters of vram's own texts in pictures.
[[nodiscard]] std::span<const uint8_t> han_font();

}  // namespace vram::pictures
