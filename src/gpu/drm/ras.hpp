// What amdgpu says of errors in a card's memory, in the folder `ras`: their number, and the pages
// that are out of use for them. What is not told, or not understood, is unknown.
//
// One thread at a time.
#pragma once

#include "gpu/drm/card.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/telemetry.hpp"

#include <optional>

namespace vram::gpu::drm {

[[nodiscard]] EccCounts read_ecc(Files& files, const Card& card);
// Unknown also where the list is longer than is read of a file.
[[nodiscard]] std::optional<RetiredPages> read_bad_pages(Files& files, const Card& card);

}  // namespace vram::gpu::drm
