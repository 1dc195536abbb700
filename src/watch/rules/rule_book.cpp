#include "watch/rules/rule_book.hpp"

#include "base/settings_file.hpp"
#include "base/text.hpp"
#include "watch/rules/built_in.hpp"
#include "watch/rules/measures.hpp"
#include "watch/rules/rule_settings.hpp"

#include <algorithm>
#include <utility>

namespace vram::watch {
namespace {

constexpr uint64_t kMaxRulesFileBytes = uint64_t{1} << 20;
constexpr size_t kMaxRules = 256;

bool is_rule_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

std::vector<std::string> names_of(const std::vector<Rule>& rules) {
  std::vector<std::string> names;
  for (const Rule& rule : rules) names.push_back(rule.name);
  return names;
}

std::vector<std::string> measure_names() {
  std::vector<std::string> names;
  for (const MeasureFacts& facts : all_measures()) names.emplace_back(facts.name);
  return names;
}

const TomlValue* setting_named(const TomlValue& section, std::string_view key) {
  const auto found = std::ranges::find(*section.table, key, &TomlValue::key);
  return found == section.table->end() ? nullptr : &*found;
}

// A rule of the file's own begins as the first built-in one that judges the same.
Result<Rule> new_rule(const std::string& file, const TomlValue& section) {
  const std::vector<Rule> rules = built_in_rules();
  if (!is_rule_name(section.key))
    return toml_error(file, section.key_place,
                      fmt::format("expected a rule's name of letters, digits, - and _, found '{}'",
                                  shorten_end(printable(section.key), 70)));
  const TomlValue* const measure = setting_named(section, "measure");
  if (measure == nullptr)
    return toml_error(
        file, section.key_place,
        fmt::format("no rule '{}' is built in{}; a rule of your own needs 'measure', one "
                    "of {}",
                    section.key, did_you_mean(section.key, names_of(rules)),
                    fmt::join(measure_names(), ", ")));
  const auto same = std::ranges::find_if(
      rules, [&](const Rule& rule) { return measure->text == identifier(rule.measure); });
  if (same == rules.end()) {
    const std::vector<std::string> names = measure_names();
    return toml_error(file, measure->place,
                      fmt::format("rules.{}.measure: expected one of {}, found {}{}", section.key,
                                  fmt::join(names, ", "), measure->found,
                                  did_you_mean(measure->text.value_or(""), names)));
  }
  const MeasureFacts& facts = facts_of(same->measure);
  const std::string_view needs = facts.has_xids ? "xids" : facts.has_reasons ? "reasons" : "";
  if (!needs.empty() && setting_named(section, needs) == nullptr)
    return toml_error(
        file, section.key_place,
        fmt::format("rules.{}: a rule of measure {} needs '{}'", section.key, facts.name, needs));
  Rule rule = *same;
  rule.name = section.key;
  rule.is_enabled = true;
  return rule;
}

Result<const TomlValue*> rules_of(const std::string& file, const TomlValue& top) {
  const TomlValue* rules = nullptr;
  for (const TomlValue& item : *top.table) {
    if (item.key != "rules")
      return toml_error(
          file, item.key_place,
          fmt::format("expected [rules.NAME], found '{}'", shorten_end(printable(item.key), 70)));
    if (!item.table)
      return toml_error(file, item.place,
                        fmt::format("expected [rules.NAME], found {} as 'rules'", item.found));
    rules = &item;
  }
  return rules;
}

}  // namespace

RuleBook RuleBook::built_in() { return RuleBook(built_in_rules()); }

Result<RuleBook> RuleBook::load(const std::string& path) {
  const auto file = read_settings(path, kMaxRulesFileBytes);
  if (!file) return tl::unexpected(file.error());
  return parse(file->text, path);
}

Result<RuleBook> RuleBook::parse(std::string_view text, const std::string& name) {
  const auto top = read_toml(text, name);
  if (!top) return tl::unexpected(top.error());
  const auto sections = rules_of(name, *top);
  if (!sections) return tl::unexpected(sections.error());
  RuleBook book = built_in();
  if (*sections == nullptr) return book;
  for (const TomlValue& section : *(*sections)->table) {
    if (!section.table)
      return toml_error(name, section.place,
                        fmt::format("expected settings below [rules.{}], found {}",
                                    printable(section.key), section.found));
    const auto known = std::ranges::find(book.rules_, section.key, &Rule::name);
    auto base = known == book.rules_.end() ? new_rule(name, section) : Result<Rule>(*known);
    if (!base) return tl::unexpected(std::move(base.error()));
    auto rule = apply_section(name, section, std::move(*base));
    if (!rule) return tl::unexpected(std::move(rule.error()));
    if (known == book.rules_.end()) {
      book.rules_.push_back(std::move(*rule));
    } else {
      *known = std::move(*rule);
    }
    if (book.rules_.size() > kMaxRules)
      return toml_error(name, section.key_place,
                        fmt::format("expected at most {} rules, found more", kMaxRules));
  }
  return book;
}

}  // namespace vram::watch
