// Common texts about a process in the live views, besides status_words. Untrusted text is made
// printable. Pure functions.
#pragma once

#include "watch/snapshot.hpp"

#include <string>

namespace vram::show {

// The name, else the number; "-" if neither is known.
[[nodiscard]] std::string user_text(const watch::ProcessFacts& facts);
// As place_text(); "-" if unknown.
[[nodiscard]] std::string known_place_text(const watch::ProcessFacts& facts);
// Of MIG: "1/0", or the GPU instance alone.
[[nodiscard]] std::string instance_text(const gpu::DeviceProcess& process);
[[nodiscard]] std::string step_time_text(const watch::Process& process);
// Without the program's folder, which is least informative but comes first. For a hidden process,
// states that.
[[nodiscard]] std::string command_text(const watch::ProcessFacts& facts);

}  // namespace vram::show
