#include "alerts/alert.hpp"

#include <array>

namespace vram::alerts {

std::string_view identifier(AlertState state) {
  static constexpr std::array<std::string_view, 3> kNames = {"pending", "firing", "resolved"};
  return kNames.at(static_cast<size_t>(state));
}

std::string_view identifier(Ending ending) {
  static constexpr std::array<std::string_view, 4> kNames = {"clear", "gone", "unknown", "no_rule"};
  return kNames.at(static_cast<size_t>(ending));
}

}  // namespace vram::alerts
