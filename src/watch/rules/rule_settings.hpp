// Applies the settings of a file to a rule, and detects all errors in them.
#pragma once

#include "base/result.hpp"
#include "watch/rules/rule.hpp"
#include "watch/rules/toml_sections.hpp"

#include <span>
#include <string>
#include <vector>

namespace vram::watch {

// The keys of a rule in a file: "enabled", "above", …
[[nodiscard]] std::span<const std::string> rule_keys();

// A section [rules.NAME] put over `base`: the rule as it was, or for a new one another of the same
// measure. `file` begins errors.
[[nodiscard]] Result<Rule> apply_section(const std::string& file, const Setting& section,
                                         Rule base);

// "rules.toml:3:7: …"
[[nodiscard]] tl::unexpected<Error> wrong(const std::string& file, const Place& place,
                                          const std::string& what);
// ", did you mean 'x'?", or nothing.
[[nodiscard]] std::string hint_for(std::string_view word, std::span<const std::string> names);

}  // namespace vram::watch
