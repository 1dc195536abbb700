// vram free as text: which processes could release GPU memory, and their answers. Pure functions of
// the values and the terminal's properties.
#pragma once

#include "show/draw/page.hpp"
#include "watch/reclaim.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace vram::show {

[[nodiscard]] std::string draw_reclaimable(const watch::Reclaimable& reclaimable,
                                           const TextOptions& options = {});
[[nodiscard]] std::string draw_answers(const watch::Reclaimable& reclaimable,
                                       std::span<const watch::TrimAnswer> answers, size_t swept,
                                       const TextOptions& options = {});

// "answered", "silent", "taken", "ended", "left", "refused".
[[nodiscard]] std::string_view name_of(watch::TrimOutcome outcome);

// vram free for programs: vram.free/1, documented in docs/json.md.

// No answers: nothing was requested.
[[nodiscard]] std::string free_json(const watch::Reclaimable& reclaimable,
                                    std::span<const watch::TrimAnswer> answers = {},
                                    size_t swept = 0);

}  // namespace vram::show
