// The rules that apply without a rule file. The build puts deploy/rules.toml into the program,
// which tools/alert_rules.py writes from rules.toml, where each rule is defined. docs/alerts.md
// gives the reason for each threshold.
#pragma once

#include "alerts/rules/rule.hpp"

#include <string_view>
#include <vector>

namespace vram::alerts {

[[nodiscard]] std::vector<Rule> built_in_rules();
[[nodiscard]] std::string_view built_in_rules_text();

}  // namespace vram::alerts
