// The facts of each measure: its name in rules files, its unit, and its settings. One table for
// everything that reads, writes, evaluates or shows rules.
#pragma once

#include "alerts/rules/rule.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace vram::alerts {

enum class Unit : uint8_t { kShare, kBytes, kSeconds, kCelsius, kCount, kFlag };

// The kinds of subjects of a rule's alerts.
enum class Scope : uint8_t { kDevice, kProcess, kMachine };

struct MeasureFacts {
  Measure measure;
  std::string_view name;  // "memory_used"
  Unit unit;
  Scope scope;
  std::string_view meaning;  // a few words
  bool holds_below = false;  // the less, the worse
  bool has_window = false;   // settings beyond those of all rules
  bool has_at_least = false;
  bool has_headroom = false;
  bool has_xids = false;
  bool has_reasons = false;
};

[[nodiscard]] std::span<const MeasureFacts> all_measures();
[[nodiscard]] const MeasureFacts& facts_of(Measure measure);

[[nodiscard]] std::string_view identifier(Measure measure);
[[nodiscard]] std::string_view identifier(Severity severity);  // "info", "warning", "critical"
[[nodiscard]] std::string_view identifier(Unit unit);          // "ratio", "bytes", "seconds", …

// "96.3 %", "2.5 GiB", "3 h 10 min", "91 C", "2", "yes".
[[nodiscard]] std::string value_text(Unit unit, double value);

}  // namespace vram::alerts
