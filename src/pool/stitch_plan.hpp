// StitchPlan: which free pieces are to be seen as one range, and through which stitch: one that is
// mapped already, one that needs some handles exchanged, or a new one. Pure; for the slow path.
#pragma once

#include "pool/stitches.hpp"
#include "pool/survey.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vram::pool {

struct StitchPlan {
  std::vector<FreePiece> pieces;  // in the order in which they are to be seen
  uint64_t offset_bytes = 0;      // of the first piece in the stitch
  StitchId stitch = kNoStitch;    // that shows them, once patched; kNoStitch: a new one
  std::vector<Stitches::Patch> patches;
};

// A new stitch of as few handles as possible.
[[nodiscard]] std::optional<StitchPlan> plan_stitch(const Survey& survey, uint64_t bytes);

// The idle stitch that needs the fewest handles exchanged; none where more than `most` in a hundred
// of its handles would have to be. With 0 the driver has nothing to do.
[[nodiscard]] std::optional<StitchPlan> plan_reuse(const Survey& survey, const Stitches& stitches,
                                                   uint64_t bytes, uint32_t max_percent);

}  // namespace vram::pool
