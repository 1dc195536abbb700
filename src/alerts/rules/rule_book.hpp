// RuleBook: the rules in force: the built-in ones, changed by a TOML file.
//
//     rules.toml ──▶ RuleBook::load ──▶ Judge
//
// A file is checked completely before it has any effect: with an error there is no new book, and
// the old one stays in force. Errors name the file, line and column, what was expected and what was
// found.
#pragma once

#include "alerts/rules/rule.hpp"
#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace vram::alerts {

// The rules that apply without a rule file. The build puts deploy/rules.toml into the program,
// which tools/alert_rules.py writes from rules.toml, where each rule is defined. docs/alerts.md
// gives the reason for each threshold.
[[nodiscard]] std::vector<Rule> built_in_rules();
[[nodiscard]] std::string_view built_in_rules_text();

class RuleBook {
 public:
  [[nodiscard]] static RuleBook built_in();
  [[nodiscard]] static Result<RuleBook> load(const std::string& path);
  // `name` is what errors call the text.
  [[nodiscard]] static Result<RuleBook> parse(std::string_view text, const std::string& name);

  // The built-in rules first, then the file's own, each name once; includes disabled rules.
  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }

  // A file that makes this book: every rule with all its settings.
  [[nodiscard]] std::string to_toml() const;

 private:
  explicit RuleBook(std::vector<Rule> rules) : rules_(std::move(rules)) {}
  std::vector<Rule> rules_;
};

}  // namespace vram::alerts
