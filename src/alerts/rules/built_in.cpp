#include "alerts/rules/built_in.hpp"

#include "alerts/rules/measures.hpp"
#include "alerts/rules/rule_settings.hpp"
#include "base/result.hpp"
#include "base/toml.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace vram::alerts {
namespace {

constexpr const char* kFile = "deploy/rules.toml";

const TomlValue& value_in(const TomlValue& table, std::string_view key) {
  const auto found = std::ranges::find(*table.table, key, &TomlValue::key);
  VRAM_CHECK(found != table.table->end());
  return *found;
}

// A section contains all settings, so it overrides none of an earlier rule.
Rule rule_of(const TomlValue& section) {
  const auto& measure = value_in(section, "measure").text;
  const auto facts = std::ranges::find_if(
      all_measures(), [&](const MeasureFacts& each) { return each.name == measure; });
  VRAM_CHECK(facts != all_measures().end());
  Rule rule;
  rule.name = section.key;
  rule.measure = facts->measure;
  auto read = apply_section(kFile, section, std::move(rule));
  VRAM_CHECK(read.has_value());
  return *std::move(read);
}

std::vector<Rule> read_rules() {
  const auto file = read_toml(built_in_rules_text(), kFile);
  VRAM_CHECK(file.has_value());
  std::vector<TomlValue> sections = *value_in(*file, "rules").table;
  std::ranges::sort(sections, {}, [](const TomlValue& section) { return section.key_place.line; });
  std::vector<Rule> rules;
  for (const TomlValue& section : sections) rules.push_back(rule_of(section));
  return rules;
}

}  // namespace

std::vector<Rule> built_in_rules() {
  static const std::vector<Rule> kRules = read_rules();
  return kRules;
}

}  // namespace vram::alerts
