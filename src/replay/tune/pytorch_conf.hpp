// From an allocator's spec to what people export: the text of PYTORCH_CUDA_ALLOC_CONF, and what to
// know about the settings in it. Pure.
#pragma once

#include "replay/replay.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vram::replay {

// "key:value,key:value"; empty where the default is meant, nullopt for what PyTorch can't be set
// to.
[[nodiscard]] std::optional<std::string> pytorch_conf(const AllocatorSpec& spec);

// The line for a shell that sets PyTorch so: "export PYTORCH_CUDA_ALLOC_CONF=key:value"; for the
// defaults the line that unsets the variable.
[[nodiscard]] std::string export_line(const AllocatorSpec& spec);

// One sentence for each setting that not every PyTorch knows, or that has a condition or a price.
[[nodiscard]] std::vector<std::string> setting_notes(const AllocatorSpec& spec);

}  // namespace vram::replay
