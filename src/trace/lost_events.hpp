// The notes of recorders that lost events: what follows from the events, such as peaks and leaks,
// may then be wrong. A recording has them as texts, in English.
#pragma once

#include "base/language.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <string_view>

namespace vram::trace {

inline constexpr const char* kLostToDisk =
    tr_later("records given up, as they came faster than the disk took them");
inline constexpr const char* kLostInKernel =
    tr_later("events lost, as they came faster than vram took them from the kernel");

// How many events the recorder lost.
[[nodiscard]] inline uint64_t lost_events(const Trace& trace) {
  uint64_t lost = 0;
  for (const Note& note : trace.origin.notes) {
    if (note.text == std::string_view(kLostToDisk) || note.text == std::string_view(kLostInKernel))
      lost += note.count;
  }
  return lost;
}

}  // namespace vram::trace
