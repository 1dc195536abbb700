// What the views of a live machine say of a process in the same words, beside status_words. Text
// from outside comes out printable. Pure functions.
#pragma once

#include "watch/snapshot.hpp"

#include <string>

namespace vram::show {

// By name, else by number; "-" where neither is known.
[[nodiscard]] std::string user_text(const watch::ProcessFacts& facts);
// As place_text(); "-" where it can't be known.
[[nodiscard]] std::string known_place_text(const watch::ProcessFacts& facts);
// Of MIG: "1/0", or the GPU instance alone.
[[nodiscard]] std::string instance_text(const gpu::DeviceProcess& process);
[[nodiscard]] std::string step_time_text(const watch::Process& process);
// Without the folder that the program lies in: it tells least and stands first. Of a process that
// is not to be seen, that.
[[nodiscard]] std::string command_text(const watch::ProcessFacts& facts);

}  // namespace vram::show
