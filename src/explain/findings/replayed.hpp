// What replays (whatif/) say about the setting that most advice is about: whether expandable
// segments would have helped this program, and by how much. For the findings; pure.
#pragma once

#include "explain/report.hpp"

#include <string>

namespace vram::explain {

enum class Help : uint8_t {
  kUnknown,  // not replayed
  kYes,
  kNo,
};

// It lets a program complete that did not, or reserves noticeably less.
[[nodiscard]] Help expandable_helps(const DeviceReport& report);

// A sentence with both figures, with a space before it; empty where nothing was replayed.
[[nodiscard]] std::string replayed_with_expandable(const DeviceReport& report);

}  // namespace vram::explain
