// Baseline: a side of a comparison as a small text file (TOML) that a project commits with its code
// and reviews: no times, no addresses, no paths of a machine; equal for equal recordings.
// docs/gate.md describes its fields.
#pragma once

#include "base/result.hpp"
#include "explain/diff/side.hpp"

#include <string>
#include <string_view>

namespace vram::explain {

// At most about 100 KB: of each device the largest sites, down to 0.1 % of its peak.
[[nodiscard]] std::string write_baseline(const Side& side);

// `name` is what errors call the text. kBadInput: the text is no baseline of this version, or an
// edit made it contradict itself.
[[nodiscard]] Result<Side> read_baseline(std::string_view text, const std::string& name);

}  // namespace vram::explain
