// Applies the settings of a file to a rule, and detects all errors in them.
#pragma once

#include "alerts/rules/rule.hpp"
#include "base/result.hpp"
#include "base/toml.hpp"

#include <span>
#include <string>
#include <vector>

namespace vram::alerts {

// The keys of a rule in a file: "enabled", "above", …
[[nodiscard]] std::span<const std::string> rule_keys();

// A section [rules.NAME] put over `base`: the rule as it was, or for a new one another of the same
// measure. `file` begins errors.
[[nodiscard]] Result<Rule> apply_section(const std::string& file, const TomlValue& section,
                                         Rule base);

}  // namespace vram::alerts
