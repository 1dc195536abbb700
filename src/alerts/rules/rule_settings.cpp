#include "alerts/rules/rule_settings.hpp"

#include "alerts/judge/trend.hpp"
#include "alerts/rules/alert_words.hpp"
#include "alerts/rules/rule.hpp"
#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace vram::alerts {
namespace {

constexpr uint64_t kMaxDurationNs = 30 * 24 * kHourNs;
constexpr size_t kMaxItems = 64;
constexpr size_t kMaxTextLength = 1'000;

// What a value has to be, for errors.
std::string_view wanted(Unit unit) {
  switch (unit) {
    case Unit::kShare:
      return "a share such as \"95%\" or 0.95";
    case Unit::kBytes:
      return "a size such as \"4GiB\"";
    case Unit::kSeconds:
      return "a time such as \"10min\"";
    case Unit::kCelsius:
      return "degrees Celsius such as 85";
    case Unit::kCount:
      return "a whole number from 1 on";
    case Unit::kFlag:
      break;
  }
  return "true or false";
}

std::optional<double> share_of(const TomlValue& setting) {
  if (!setting.text) return setting.number;
  std::string_view text = *setting.text;
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return percent / 100;
}

std::optional<double> bytes_of(const TomlValue& setting) {
  if (!setting.text) return setting.number;
  const auto bytes = parse_bytes(*setting.text);
  return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
}

std::optional<double> seconds_of(const TomlValue& setting) {
  if (!setting.text) return setting.number;
  const auto ns = parse_duration_ns(*setting.text);
  return ns ? std::optional(static_cast<double>(*ns) / kSecondNs) : std::nullopt;
}

// In the unit, and possible.
std::optional<double> value_of(Unit unit, const TomlValue& setting) {
  const auto within = [](std::optional<double> value, double minimum, double maximum) {
    return value && *value >= minimum && *value <= maximum ? value : std::nullopt;
  };
  switch (unit) {
    case Unit::kShare:
      return within(share_of(setting), 0, 1);
    case Unit::kBytes:
      return within(bytes_of(setting), 0, 0x1p53);
    case Unit::kSeconds:
      return within(seconds_of(setting), 0, static_cast<double>(kMaxDurationNs) / kSecondNs);
    case Unit::kCelsius:
      return within(setting.number, -100, 500);
    case Unit::kCount:
      return setting.number && std::floor(*setting.number) == *setting.number
                 ? within(setting.number, 1, 1e6)
                 : std::nullopt;
    case Unit::kFlag:
      break;
  }
  return std::nullopt;
}

bool is_label_name(const std::string& name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && name.size() <= kMaxItems && is_letter(name[0]) &&
         !name.starts_with("__") &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// One section being put over a rule.
class Section {
 public:
  Section(const std::string& file, const TomlValue& section, Rule& rule)
      : file_(file), section_(section), rule_(rule), facts_(facts_of(rule.measure)) {}

  Result<> apply() {
    for (const TomlValue& setting : *section_.table) {
      if (auto applied = apply_one(setting); !applied) return applied;
    }
    return settle_clear();
  }

 private:
  using Apply = Result<> (Section::*)(const TomlValue&);

 public:
  struct Key {
    std::string_view name;
    Apply apply;
    bool MeasureFacts::* needs = nullptr;  // known only to measures that have it
  };
  static std::span<const Key> keys();

 private:
  Result<> apply_one(const TomlValue& setting) {
    const auto key = std::ranges::find(keys(), std::string_view(setting.key),
                                       [](const Key& k) { return k.name; });
    if (key == keys().end()) {
      return toml_error(file_, setting.key_place,
                        fmt::format("expected a setting of a rule, found '{}'{}; there are {}",
                                    printable(setting.key), did_you_mean(setting.key, rule_keys()),
                                    fmt::join(rule_keys(), ", ")));
    }
    if (key->needs != nullptr && !(facts_.*key->needs)) {
      return toml_error(
          file_, setting.key_place,
          fmt::format("{}: rules of measure {} have no such setting", path(setting), facts_.name));
    }
    return (this->*key->apply)(setting);
  }

  [[nodiscard]] std::string path(const TomlValue& setting) const {
    return fmt::format("rules.{}.{}", printable(section_.key), printable(setting.key));
  }
  tl::unexpected<Error> expected(const TomlValue& setting, std::string_view what) const {
    return toml_error(file_, setting.place,
                      fmt::format("{}: expected {}, found {}", path(setting), what, setting.found));
  }

  Result<> set_number(const TomlValue& setting, Unit unit, double& target) const {
    const auto value = value_of(unit, setting);
    if (!value) return expected(setting, wanted(unit));
    target = *value;
    return {};
  }
  Result<> set_time(const TomlValue& setting, uint64_t& target) const {
    double seconds = 0;
    auto set = set_number(setting, Unit::kSeconds, seconds);
    if (set) target = static_cast<uint64_t>(std::llround(seconds * kSecondNs));
    return set;
  }
  Result<> set_bytes(const TomlValue& setting, uint64_t& target) const {
    double bytes = 0;
    auto set = set_number(setting, Unit::kBytes, bytes);
    if (set) target = static_cast<uint64_t>(bytes);
    return set;
  }
  Result<> set_text(const TomlValue& setting, std::string& target) const {
    if (!setting.text || setting.text->empty() || setting.text->size() > kMaxTextLength)
      return expected(setting, "a text of 1 to 1000 bytes");
    target = printable(*setting.text);
    return {};
  }

  Result<> set_measure(const TomlValue& setting) {
    if (setting.text == facts_.name) return {};
    return toml_error(
        file_, setting.place,
        fmt::format("{}: {} is built in and judges {}, found {}: give a rule that judges "
                    "something else a name of its own",
                    path(setting), rule_.name, facts_.name, setting.found));
  }
  Result<> set_enabled(const TomlValue& setting) {
    if (!setting.flag) return expected(setting, wanted(Unit::kFlag));
    rule_.is_enabled = *setting.flag;
    return {};
  }
  Result<> set_threshold(const TomlValue& setting) {
    const std::string_view right = facts_.holds_below ? "below" : "above";
    if (facts_.unit == Unit::kFlag || setting.key != right) {
      return toml_error(
          file_, setting.key_place,
          facts_.unit == Unit::kFlag
              ? fmt::format("{}: {} is yes or no and has no threshold", path(setting), facts_.name)
              : fmt::format("{}: expected '{}', since {} is worse the {} it is", path(setting),
                            right, facts_.name, facts_.holds_below ? "less" : "more"));
    }
    threshold_ = &setting;
    before_ = rule_.threshold;
    return set_number(setting, facts_.unit, rule_.threshold);
  }
  Result<> set_clear(const TomlValue& setting) {
    if (facts_.unit == Unit::kFlag)
      return toml_error(
          file_, setting.key_place,
          fmt::format("{}: {} is yes or no and has no threshold", path(setting), facts_.name));
    clear_ = &setting;
    return set_number(setting, facts_.unit, rule_.clear);
  }
  Result<> set_for(const TomlValue& setting) { return set_time(setting, rule_.for_ns); }
  Result<> set_clear_for(const TomlValue& setting) { return set_time(setting, rule_.clear_for_ns); }
  Result<> set_unknown_for(const TomlValue& setting) {
    return set_time(setting, rule_.unknown_for_ns);
  }
  Result<> set_window(const TomlValue& setting) {
    auto set = set_time(setting, rule_.window_ns);
    // Which devices there were is remembered for as long as one likes, figures for a day.
    const bool is_long = facts_.measure == Measure::kMissing;
    const uint64_t max_age_ns = is_long ? 365 * kMaxWindowNs : kMaxWindowNs;
    if (set && (rule_.window_ns < kMinuteNs || rule_.window_ns > max_age_ns))
      return expected(setting, is_long ? "a time from \"1min\" to \"8760h\""
                                       : "a time from \"1min\" to \"24h\"");
    return set;
  }
  Result<> set_at_least(const TomlValue& setting) {
    return set_bytes(setting, rule_.at_least_bytes);
  }
  Result<> set_headroom(const TomlValue& setting) {
    return set_bytes(setting, rule_.headroom_bytes);
  }
  Result<> set_severity(const TomlValue& setting) {
    for (const Severity severity : {Severity::kInfo, Severity::kWarning, Severity::kCritical}) {
      if (setting.text != identifier(severity)) continue;
      rule_.severity = severity;
      return {};
    }
    return expected(setting, "\"info\", \"warning\" or \"critical\"");
  }
  Result<> set_xids(const TomlValue& setting) {
    const std::string_view what = "a list of 1 to 64 Xid numbers such as [48, 79]";
    if (!setting.list || setting.list->empty() || setting.list->size() > kMaxItems)
      return expected(setting, what);
    rule_.xids.clear();
    for (const TomlValue& item : *setting.list) {
      double xid = 0;
      if (!set_number(item, Unit::kCount, xid)) {
        return toml_error(
            file_, item.place,
            fmt::format("{}: expected {}, found {} in it", path(setting), what, item.found));
      }
      rule_.xids.push_back(static_cast<uint64_t>(xid));
    }
    return {};
  }
  Result<> set_reasons(const TomlValue& setting) {
    const std::string_view what = "a list of texts such as [\"hardware thermal\"]";
    if (!setting.list || setting.list->empty() || setting.list->size() > kMaxItems)
      return expected(setting, what);
    rule_.reasons.clear();
    for (const TomlValue& item : *setting.list) {
      if (!item.text) {
        return toml_error(
            file_, item.place,
            fmt::format("{}: expected {}, found {} in it", path(setting), what, item.found));
      }
      rule_.reasons.push_back(*item.text);
    }
    return {};
  }
  Result<> set_summary(const TomlValue& setting) {
    if (auto set = set_text(setting, rule_.summary); !set) return set;
    for (size_t at = rule_.summary.find('{'); at != std::string::npos;
         at = rule_.summary.find('{', at + 1)) {
      const std::string field = rule_.summary.substr(at, rule_.summary.find('}', at) - at + 1);
      if (std::ranges::count(summary_fields(), field) > 0) continue;
      return toml_error(file_, setting.place,
                        fmt::format("{}: expected one of {}, found '{}'{}", path(setting),
                                    fmt::join(summary_fields(), " "), shorten_end(field, 40),
                                    did_you_mean(field, summary_fields())));
    }
    return {};
  }
  Result<> set_advice(const TomlValue& setting) { return set_text(setting, rule_.advice); }
  Result<> set_labels(const TomlValue& setting) {
    if (!setting.table || setting.table->size() > kMaxItems)
      return expected(setting, "a table of texts such as { team = \"ml\" }");
    rule_.labels.clear();
    for (const TomlValue& item : *setting.table) {
      if (!is_label_name(item.key) || item.key == "alertname" || item.key == "severity")
        return toml_error(file_, item.key_place,
                          fmt::format("{}: expected a name of letters, digits and _ that is not "
                                      "alertname or severity, found '{}'",
                                      path(setting), printable(item.key)));
      if (auto set = set_text(item, rule_.labels[item.key]); !set) return set;
    }
    return {};
  }

  // Where only the threshold moves, the distance to where it is clear goes along.
  Result<> settle_clear() {
    if (threshold_ != nullptr && clear_ == nullptr)
      rule_.clear = before_ == 0 ? rule_.threshold : rule_.clear / before_ * rule_.threshold;
    const bool is_right =
        facts_.holds_below ? rule_.clear >= rule_.threshold : rule_.clear <= rule_.threshold;
    if (is_right) return {};
    const TomlValue& given = clear_ != nullptr ? *clear_ : *threshold_;
    return toml_error(
        file_, given.place,
        fmt::format("rules.{}: expected 'clear' to be {} than the threshold {}, found {}: "
                    "a rule that fires is clear only beyond it",
                    rule_.name, facts_.holds_below ? "not less" : "not more",
                    value_text(facts_.unit, rule_.threshold),
                    value_text(facts_.unit, rule_.clear)));
  }

  const std::string& file_;
  const TomlValue& section_;
  Rule& rule_;
  const MeasureFacts& facts_;
  const TomlValue* threshold_ = nullptr;
  const TomlValue* clear_ = nullptr;
  double before_ = 0;
};

std::span<const Section::Key> Section::keys() {
  static const std::vector<Key> kKeys = {
      {"measure", &Section::set_measure},
      {"enabled", &Section::set_enabled},
      {"above", &Section::set_threshold},
      {"below", &Section::set_threshold},
      {"clear", &Section::set_clear},
      {"for", &Section::set_for},
      {"clear_for", &Section::set_clear_for},
      {"unknown_for", &Section::set_unknown_for},
      {"window", &Section::set_window, &MeasureFacts::has_window},
      {"at_least", &Section::set_at_least, &MeasureFacts::has_at_least},
      {"headroom", &Section::set_headroom, &MeasureFacts::has_headroom},
      {"xids", &Section::set_xids, &MeasureFacts::has_xids},
      {"reasons", &Section::set_reasons, &MeasureFacts::has_reasons},
      {"severity", &Section::set_severity},
      {"summary", &Section::set_summary},
      {"advice", &Section::set_advice},
      {"labels", &Section::set_labels},
  };
  return kKeys;
}

}  // namespace

std::span<const std::string> rule_keys() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Section::Key& key : Section::keys()) names.emplace_back(key.name);
    return names;
  }();
  return kNames;
}

Result<Rule> apply_section(const std::string& file, const TomlValue& section, Rule base) {
  VRAM_TRY(Section(file, section, base).apply());
  return base;
}

}  // namespace vram::alerts
