#include "watch/rules/built_in.hpp"

#include "base/check.hpp"
#include "watch/rules/measures.hpp"
#include "watch/rules/rule_settings.hpp"
#include "watch/rules/toml_sections.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace vram::watch {
namespace {

constexpr const char* kFile = "deploy/rules.toml";

const Setting& setting_in(const Setting& table, std::string_view key) {
  const auto found = std::ranges::find(*table.table, key, &Setting::key);
  VRAM_CHECK(found != table.table->end());
  return *found;
}

// A section contains all settings, so it overrides none of an earlier rule.
Rule rule_of(const Setting& section) {
  const auto& measure = setting_in(section, "measure").text;
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
  std::vector<Setting> sections = *setting_in(*file, "rules").table;
  std::ranges::sort(sections, {}, [](const Setting& section) { return section.key_place.line; });
  std::vector<Rule> rules;
  for (const Setting& section : sections) rules.push_back(rule_of(section));
  return rules;
}

}  // namespace

std::vector<Rule> built_in_rules() {
  static const std::vector<Rule> kRules = read_rules();
  return kRules;
}

}  // namespace vram::watch
