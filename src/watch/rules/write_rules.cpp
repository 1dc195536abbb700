// A book of rules as the file that makes it.
#include "base/bytes.hpp"
#include "base/toml.hpp"
#include "watch/rules/measures.hpp"
#include "watch/rules/rule_book.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace vram::watch {
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

}  // namespace vram::watch
