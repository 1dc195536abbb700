// The comparison of ranks as text: a line for each, the worst one with the reason, and their steps
// side by side. A pure function of the comparison and the terminal's properties.
#pragma once

#include "explain/ranks/ranks.hpp"
#include "show/draw/page.hpp"

#include <string>
#include <vector>

namespace vram::show {

[[nodiscard]] std::string draw_ranks(const explain::RankReport& report,
                                     const TextOptions& options = {});

// Recordings that have nothing to do with each other: a line each.
[[nodiscard]] std::string draw_files(const std::vector<explain::Report>& reports,
                                     const TextOptions& options = {});

// Ranks read together, for programs: vram.ranks/1, documented field by field in docs/json.md. A
// pure function of the comparison.

[[nodiscard]] std::string ranks_json(const explain::RankReport& report);

}  // namespace vram::show
