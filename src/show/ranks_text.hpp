// Ranks read together, for people: a line each, which is worst and why, and their steps side by
// side. A pure function of the comparison and the shape of the terminal.
#pragma once

#include "explain/ranks/ranks.hpp"
#include "show/report_text.hpp"

#include <string>

namespace vram::show {

[[nodiscard]] std::string draw_ranks(const explain::RankReport& report,
                                     const TextOptions& options = {});

}  // namespace vram::show
