// Ranks read together, for programs: vram.ranks/1, documented field by field in docs/json.md. A
// pure function of the comparison.
#pragma once

#include "explain/ranks/ranks.hpp"

#include <string>

namespace vram::show {

[[nodiscard]] std::string ranks_json(const explain::RankReport& report);

}  // namespace vram::show
