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

// One sentence for each setting that not every PyTorch knows, or that has a condition or a price.
[[nodiscard]] std::vector<std::string> setting_notes(const AllocatorSpec& spec);

}  // namespace vram::replay
