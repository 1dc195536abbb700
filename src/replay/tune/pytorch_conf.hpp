// Converts an allocator's spec to the text of PYTORCH_CUDA_ALLOC_CONF, with notes about its
// settings. Pure.
#pragma once

#include "replay/replay.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vram::replay {

// "key:value,key:value"; empty for the default, nullopt if PyTorch cannot be configured so.
[[nodiscard]] std::optional<std::string> pytorch_conf(const AllocatorSpec& spec);

// The line for a shell that sets PyTorch so: "export PYTORCH_CUDA_ALLOC_CONF=key:value"; for the
// defaults the line that unsets the variable.
[[nodiscard]] std::string export_line(const AllocatorSpec& spec);

// One sentence for each setting that some PyTorch versions lack, or that has a condition or a cost.
[[nodiscard]] std::vector<std::string> setting_notes(const AllocatorSpec& spec);

}  // namespace vram::replay
