#include "trace/event.hpp"

#include <array>

namespace vram::trace {

std::string_view to_string(EventKind kind) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "other",         "alloc",        "free_requested", "free_completed",
      "segment_alloc", "segment_free", "segment_map",    "segment_unmap",
      "snapshot",      "oom",          "annotate",       "other"};
  const auto index = static_cast<size_t>(kind);
  return index < kNames.size() ? kNames[index] : kNames[0];
}

}  // namespace vram::trace
