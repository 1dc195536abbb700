// Matches the sites of two recordings of one program, whose code may have changed between them. A
// pure function.
//
// By stack, sites are matched by the functions on their stacks and the last parts of their files'
// paths, in rounds from strict to loose: equal stacks; equal innermost functions, if callers
// changed; equal function names, if files were renamed. Line numbers never decide alone, since an
// inserted line moves all below it: sites of the same functions are aligned in the order of their
// lines, by the shift that most of them share and by their sizes. Positions in a step are aligned
// in the same way.
#pragma once

#include "explain/diff/peaks.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace vram::explain {

struct SitePair {
  std::optional<size_t> a;  // nothing: only the other side has it
  std::optional<size_t> b;
};

// Each site of both is in one pair.
[[nodiscard]] std::vector<SitePair> match_sites(const std::vector<PeakSite>& a,
                                                const std::vector<PeakSite>& b, SiteBasis basis);

}  // namespace vram::explain
