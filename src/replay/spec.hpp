// The text form of settings: "key=value,key=value" and, as in PYTORCH_CUDA_ALLOC_CONF,
// "key:value,key:value". Commas inside brackets belong to the value. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::replay {

// A piece without '=' or ':' becomes a key with an empty value; empty pieces are left out.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> split_settings(
    std::string_view text);

}  // namespace vram::replay
