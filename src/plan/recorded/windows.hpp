// Windows: which events of a pass belong to the forward and to the backward of which stage. Stages
// follow one another, so each has one window of each kind.
#pragma once

#include "base/result.hpp"
#include "plan/recorded/pass.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::plan {

inline constexpr std::string_view kStageBefore = "before";
inline constexpr std::string_view kStageAfter = "after";

struct Windows {
  std::vector<std::string> stages;  // modules in the order of forward, with "before" and "after"
  // Of stage i, forward begins at begins[i], and backward at begins[2 * stages - 1 - i]. The last
  // of the 2 * stages + 1 numbers is the end of the pass.
  std::vector<uint32_t> begins;
};

// `pattern` names the modules that are stages: '*' stands for any text without a dot. If it is
// empty, they are the elements of the longest list of modules (h.0, h.1, ...) in which at least
// half of the forward pass's bytes are allocated. Fails if there is no such list, if the modules do
// not run one after the other, or if one of them has no backward.
[[nodiscard]] Result<Windows> find_windows(const ModuleScopes& scopes,
                                           std::span<const trace::Event> events, const Pass& pass,
                                           std::string_view pattern);

}  // namespace vram::plan
