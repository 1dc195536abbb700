// Memory errors of a card, from amdgpu's folder `ras`: error counts and retired pages. Missing or
// unexpected data is unknown.
//
// Use it from one thread at a time.
#pragma once

#include "gpu/drm/card.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/telemetry.hpp"

#include <optional>

namespace vram::gpu::drm {

[[nodiscard]] EccCounts read_ecc(Files& files, const Card& card);
// Also unknown if the list is longer than the limit of a read.
[[nodiscard]] std::optional<RetiredPages> read_bad_pages(Files& files, const Card& card);

}  // namespace vram::gpu::drm
