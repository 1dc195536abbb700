// The rules that are there without a file, and deploy/rules.toml has written out. docs/alerts.md
// gives the reason for each threshold.
#pragma once

#include "watch/rules/rule.hpp"

#include <vector>

namespace vram::watch {

[[nodiscard]] std::vector<Rule> built_in_rules();

}  // namespace vram::watch
