// vram free for programs: vram.free/1, documented in docs/json.md.
#pragma once

#include "watch/reclaim.hpp"
#include "watch/request_trim.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace vram::show {

// No answers: nothing was requested.
[[nodiscard]] std::string free_json(const watch::Reclaimable& reclaimable,
                                    std::span<const watch::TrimAnswer> answers = {},
                                    size_t swept = 0);

}  // namespace vram::show
