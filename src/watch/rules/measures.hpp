// The facts of each measure: its name in files of rules, its unit, which settings it knows. One
// table, for whoever reads, writes, judges or shows rules.
#pragma once

#include "watch/rules/rule.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace vram::watch {

enum class Unit : uint8_t { kShare, kBytes, kSeconds, kCelsius, kCount, kFlag };

// What a rule's alerts are about, one by one.
enum class Scope : uint8_t { kDevice, kProcess, kMachine };

struct MeasureFacts {
  Measure measure;
  std::string_view name;  // "memory_used"
  Unit unit;
  Scope scope;
  std::string_view meaning;  // a few words for people
  bool holds_below = false;  // the less, the worse
  bool has_window = false;   // settings that it knows beside those of all rules
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

// "96.3 %", "2.5 GiB", "3 h 10 min", "91 C", "2", "yes": for people.
[[nodiscard]] std::string value_text(Unit unit, double value);

}  // namespace vram::watch
