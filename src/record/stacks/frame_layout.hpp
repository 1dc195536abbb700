// Where CPython keeps the frames of a thread. RawFrames reads those of this process, and attach/
// those of others.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vram::record {

// Offsets in bytes, from CPython's pycore_frame.h and cpython/pystate.h of that version, built with
// the GIL.
struct FrameLayout {
  uint64_t version = 0;                    // 0x030b is 3.11
  int16_t current = 0;                     // in the thread state: the innermost frame,
  std::optional<int16_t> inner_current{};  // or a structure that has it here
  int16_t code = 0;                        // in a frame
  int16_t previous = 0;
  int16_t instruction = 0;
};

inline constexpr std::array kFrameLayouts = {FrameLayout{0x030b, 56, 8, 32, 48, 56},
                                             FrameLayout{0x030c, 56, 0, 0, 8, 56},
                                             FrameLayout{0x030d, 72, std::nullopt, 0, 8, 56}};

// From this version on the runtime (_PyRuntime) begins with a description of itself. Without the
// GIL, an interpreter has other frames.
inline constexpr uint64_t kFirstDescribed = 0x030d;
struct RuntimeDescription {
  std::array<char, 8> cookie{};
  uint64_t version = 0;
  uint64_t is_free_threaded = 0;
};
[[nodiscard]] constexpr bool has_gil(const RuntimeDescription& runtime) {
  return std::string_view(runtime.cookie.data(), runtime.cookie.size()) == "xdebugpy" &&
         runtime.is_free_threaded == 0;
}

// nullptr: it is unknown.
[[nodiscard]] constexpr const FrameLayout* frame_layout_of(uint64_t version) {
  for (const FrameLayout& layout : kFrameLayouts)
    if (layout.version == version) return &layout;
  return nullptr;
}

}  // namespace vram::record
