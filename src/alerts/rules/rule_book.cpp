#include "alerts/rules/rule_book.hpp"

#include "alerts/rules/rule.hpp"
#include "alerts/rules/rule_settings.hpp"
#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/settings_file.hpp"
#include "base/text.hpp"
#include "base/toml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
                      trf("expected a rule's name of letters, digits, - and _, found '{}'",
                          shorten_end(printable(section.key), 70)));
  const TomlValue* const measure = setting_named(section, "measure");
  if (measure == nullptr)
    return toml_error(file, section.key_place,
                      trf("no rule '{}' is built in{}; a rule of your own needs 'measure', one "
                          "of {}",
                          section.key, did_you_mean(section.key, names_of(rules)),
                          fmt::join(measure_names(), ", ")));
  const auto same = std::ranges::find_if(
      rules, [&](const Rule& rule) { return measure->text == identifier(rule.measure); });
  if (same == rules.end()) {
    const std::vector<std::string> names = measure_names();
    return toml_error(
        file, measure->place,
        trf("rules.{}.measure: expected one of {}, found {}{}", section.key, fmt::join(names, ", "),
            measure->found, did_you_mean(measure->text.value_or(""), names)));
  }
  const MeasureFacts& facts = facts_of(same->measure);
  const std::string_view needs = facts.has_xids ? "xids" : facts.has_reasons ? "reasons" : "";
  if (!needs.empty() && setting_named(section, needs) == nullptr)
    return toml_error(
        file, section.key_place,
        trf("rules.{}: a rule of measure {} needs '{}'", section.key, facts.name, needs));
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
          trf("expected [rules.NAME], found '{}'", shorten_end(printable(item.key), 70)));
    if (!item.table)
      return toml_error(file, item.place,
                        trf("expected [rules.NAME], found {} as 'rules'", item.found));
    rules = &item;
  }
  return rules;
}

}  // namespace

std::vector<Rule> built_in_rules() {
  static const std::vector<Rule> kRules = read_rules();
  return kRules;
}

RuleBook RuleBook::built_in() { return RuleBook(built_in_rules()); }

Result<RuleBook> RuleBook::load(const std::string& path) {
  VRAM_TRY_ASSIGN(const auto file, read_settings(path, kMaxRulesFileBytes));
  return parse(file.text, path);
}

Result<RuleBook> RuleBook::parse(std::string_view text, const std::string& name) {
  VRAM_TRY_ASSIGN(const auto top, read_toml(text, name));
  VRAM_TRY_ASSIGN(const auto sections, rules_of(name, top));
  RuleBook book = built_in();
  if (sections == nullptr) return book;
  for (const TomlValue& section : *sections->table) {
    if (!section.table)
      return toml_error(name, section.place,
                        trf("expected settings below [rules.{}], found {}", printable(section.key),
                            section.found));
    const auto known = std::ranges::find(book.rules_, section.key, &Rule::name);
    VRAM_TRY_ASSIGN(auto base,
                    known == book.rules_.end() ? new_rule(name, section) : Result<Rule>(*known));
    VRAM_TRY_ASSIGN(auto rule, apply_section(name, section, std::move(base)));
    if (known == book.rules_.end()) {
      book.rules_.push_back(std::move(rule));
    } else {
      *known = std::move(rule);
    }
    if (book.rules_.size() > kMaxRules)
      return toml_error(name, section.key_place,
                        trf("expected at most {} rules, found more", kMaxRules));
  }
  return book;
}

// A book of rules as the file that makes it.

namespace {

std::string time_text(uint64_t ns) {
  static constexpr std::pair<uint64_t, std::string_view> kUnits[] = {
      {kHourNs, "h"}, {kMinuteNs, "min"}, {kSecondNs, "s"}};
  for (const auto& [unit, name] : kUnits) {
    if (ns != 0 && ns % unit == 0) return fmt::format("\"{}{}\"", ns / unit, name);
  }
  return ns == 0 ? "\"0s\"" : fmt::format("\"{}ns\"", ns);
}

std::string bytes_text(uint64_t bytes) {
  static constexpr std::pair<uint64_t, std::string_view> kUnits[] = {
      {kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}};
  for (const auto& [unit, name] : kUnits) {
    if (bytes != 0 && bytes % unit == 0) return fmt::format("\"{}{}\"", bytes / unit, name);
  }
  return fmt::format("\"{}B\"", bytes);
}

// A number that is read back as this one.
std::string value_in_file(Unit unit, double value) {
  if (unit == Unit::kBytes) return bytes_text(static_cast<uint64_t>(value));
  if (unit == Unit::kSeconds)
    return time_text(static_cast<uint64_t>(std::llround(value * kSecondNs)));
  if (unit != Unit::kShare) return fmt::format("{}", value);
  const double percent = std::round(value * 1e4) / 1e2;
  return percent / 100 == value ? fmt::format("\"{}%\"", percent) : fmt::format("{}", value);
}

template <typename List>
std::string list_text(const List& list) {
  return fmt::format("[{}]\n", fmt::join(list, ", "));
}

void add_of_measure(const Rule& rule, const MeasureFacts& facts, std::string& text) {
  if (facts.unit != Unit::kFlag) {
    text += fmt::format("{} = {}\n", facts.holds_below ? "below" : "above",
                        value_in_file(facts.unit, rule.threshold));
    text += fmt::format("clear = {}\n", value_in_file(facts.unit, rule.clear));
  }
  if (facts.has_window) text += fmt::format("window = {}\n", time_text(rule.window_ns));
  if (facts.has_at_least) text += fmt::format("at_least = {}\n", bytes_text(rule.at_least_bytes));
  if (facts.has_headroom) text += fmt::format("headroom = {}\n", bytes_text(rule.headroom_bytes));
  if (facts.has_xids) text += "xids = " + list_text(rule.xids);
  if (facts.has_reasons) {
    std::vector<std::string> reasons;
    for (const std::string& reason : rule.reasons) reasons.push_back(toml_string(reason));
    text += "reasons = " + list_text(reasons);
  }
}

std::string rule_text(const Rule& rule) {
  const MeasureFacts& facts = facts_of(rule.measure);
  std::string text = fmt::format("[rules.{}]\nmeasure = \"{}\"  # {}\nenabled = {}\n", rule.name,
                                 facts.name, facts.meaning, rule.is_enabled);
  add_of_measure(rule, facts, text);
  text += fmt::format("for = {}\nclear_for = {}\nunknown_for = {}\nseverity = \"{}\"\n",
                      time_text(rule.for_ns), time_text(rule.clear_for_ns),
                      time_text(rule.unknown_for_ns), identifier(rule.severity));
  text += fmt::format("summary = {}\nadvice = {}\n", toml_string(rule.summary),
                      toml_string(rule.advice));
  if (rule.labels.empty()) return text;
  text += "labels = {";
  for (const auto& [name, value] : rule.labels)
    text += fmt::format("{} {} = {}", text.ends_with('{') ? "" : ",", name, toml_string(value));
  return text + " }\n";
}

}  // namespace

std::string RuleBook::to_toml() const {
  std::string text;
  for (const Rule& rule : rules_) text += (text.empty() ? "" : "\n") + rule_text(rule);
  return text;
}

}  // namespace vram::alerts
