// Rule: a condition that raises an alert. A value; the Judge evaluates the built-in rules and those
// of a file (rule_book.hpp).
//
// A rule's value is a double in its measure's unit: a fraction, bytes, seconds, degrees, a count,
// or 1 for yes. The condition holds at the threshold and beyond. A firing alert is clear only
// beyond `clear`, so that a value around the threshold does not raise it repeatedly.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::alerts {

enum class Severity : uint8_t { kInfo, kWarning, kCritical };

// What a rule evaluates. facts_of() has the facts of each.
enum class Measure : uint8_t {
  kMemoryUsed,
  kTimeToFull,
  kProcessTimeToFull,
  kUnattributed,
  kIdleMemory,
  kUnusedReserve,
  kDeadProcessMemory,
  kAllocRetries,
  kOoms,
  kXid,
  kOtherXid,
  kHeldClocks,
  kTemperature,
  kMemoryTemperature,
  kEccUncorrected,
  kRowRemapFailed,
  kRowRemapPending,
  kPageRetirementFailed,
  kPageRetirementPending,
  kRecoveryAction,
  kTrouble,
  kMissing,
  kSourceFailing,
  kSampleTime,
  kSampleOverdue,
};

inline constexpr uint64_t kMinuteNs = 60 * kSecondNs;
inline constexpr uint64_t kHourNs = 60 * kMinuteNs;

struct Rule {
  std::string name;  // "memory-almost-full"
  Measure measure = Measure::kMemoryUsed;
  bool is_enabled = true;
  Severity severity = Severity::kWarning;
  double threshold = 1;
  double clear = 1;
  uint64_t for_ns = 0;                        // how long it must hold before it fires
  uint64_t clear_for_ns = kMinuteNs;          // how long it must be clear before it is resolved
  uint64_t unknown_for_ns = 5 * kMinuteNs;    // how long an unknown value keeps an alert
  uint64_t window_ns = 0;                     // for measures over a time window
  uint64_t at_least_bytes = 0;                // fewer at stake do not matter
  uint64_t headroom_bytes = 0;                // does not fire if more than this is free; 0: always
  std::vector<uint64_t> xids;                 // which
  std::vector<std::string> reasons;           // which of the driver's
  std::map<std::string, std::string> labels;  // of the user's own
  std::string summary;  // the message; {device} and other fields are filled in
  std::string advice;   // what to do

  bool operator==(const Rule&) const = default;
};

enum class Unit : uint8_t { kShare, kBytes, kSeconds, kCelsius, kCount, kFlag };

// The kinds of subjects of a rule's alerts.
enum class Scope : uint8_t { kDevice, kProcess, kMachine };

// One table for everything that reads, writes, evaluates or shows rules.
struct MeasureFacts {
  Measure measure;
  std::string_view name;  // in rules files: "memory_used"
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
