// The memory of a device over time or events: requested memory as stacked groups, the reserved and
// the device's used memory as lines above them, steps and scopes as bands, the peak, failed
// requests and emptied caches as marks, and a legend with the bytes at the peak. Pure.
#pragma once

#include "explain/moment/device_view.hpp"
#include "pages/groups.hpp"
#include "pictures/columns.hpp"
#include "pictures/scene.hpp"

#include <string>

namespace vram::pictures {

// A picture's size in units, and how it looks.
struct Frame {
  double width = 960;
  double height = 420;
  bool is_dark = false;
  std::string title = {};  // else the name of the recording and the device
};

// The smallest picture with room for anything.
inline constexpr double kMinWidth = 320;
inline constexpr double kMinHeight = 220;

// "run.pickle · GPU 0"
[[nodiscard]] std::string title_of(const Frame& frame, const explain::DeviceView& view);

[[nodiscard]] Scene draw_timeline(const explain::DeviceView& view, const pages::Groups& groups,
                                  const Window& window, const Frame& frame);

}  // namespace vram::pictures
