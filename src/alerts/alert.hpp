// Alert: one rule that holds for one device, process or source. A value; Judge makes them, show/
// and serve/ hand them on.
#pragma once

#include "alerts/rules/rule.hpp"
#include "base/time.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace vram::alerts {

enum class AlertState : uint8_t {
  kPending,   // holds, but not yet for the rule's duration
  kFiring,    // is active
  kResolved,  // fired recently
};

enum class Ending : uint8_t {
  kClear,    // the value is well again
  kGone,     // its device or process no longer exists
  kUnknown,  // the value has been unknown for too long
  kNoRule,   // its rule was disabled or taken away
};

struct Alert {
  // Identifies the rule and its subject; the same each time the alert fires.
  std::string id;
  std::string rule;
  Measure measure = Measure::kMemoryUsed;
  Severity severity = Severity::kWarning;
  AlertState state = AlertState::kPending;
  std::optional<Ending> ending;    // how it was resolved
  std::optional<uint32_t> device;  // its index when it was last seen
  std::optional<uint32_t> pid;     // of the process that it is about
  // The last known value; nothing if it has no number.
  std::optional<double> value;
  // The current value is unknown; `value` is of an earlier sample.
  bool is_unknown = false;
  double threshold = 0;
  int64_t since_unix_ns = 0;               // it holds without a break
  std::optional<int64_t> started_unix_ns;  // it fires
  std::optional<int64_t> ended_unix_ns;    // it was resolved; never before it started
  // As they were when the alert began: they identify it for receivers. Texts are printable.
  std::map<std::string, std::string> labels;
  std::string summary;
  std::string advice;
  std::map<std::string, std::string> annotations;  // further information: "command"
};

// An alert that began to fire, or was resolved.
struct AlertChange {
  Alert alert;
};

[[nodiscard]] std::string_view identifier(AlertState state);  // "pending", "firing", "resolved"
[[nodiscard]] std::string_view identifier(Ending ending);  // "clear", "gone", "unknown", "no_rule"

// ClockReading: a machine's clocks at one moment, and the time between two readings, also across a
// reboot.
struct ClockReading {
  uint64_t now_ns = 0;  // monotonic; restarts at each boot
  int64_t unix_ns = 0;
  uint64_t boot = 0;  // identifies the boot
};

// Over a new start of the machine its clock counts, which may be wrong: one that was set back makes
// it 0, and one that is years ahead a day.
[[nodiscard]] inline uint64_t passed_ns(const ClockReading& from, const ClockReading& to) {
  if (from.boot == to.boot && to.now_ns >= from.now_ns) return to.now_ns - from.now_ns;
  constexpr uint64_t kDayNs = uint64_t{24} * 3'600 * kSecondNs;
  if (to.unix_ns <= from.unix_ns) return 0;
  return std::min(static_cast<uint64_t>(to.unix_ns) - static_cast<uint64_t>(from.unix_ns), kDayNs);
}

inline std::string_view identifier(AlertState state) {
  static constexpr std::array<std::string_view, 3> kNames = {"pending", "firing", "resolved"};
  return kNames.at(static_cast<size_t>(state));
}

inline std::string_view identifier(Ending ending) {
  static constexpr std::array<std::string_view, 4> kNames = {"clear", "gone", "unknown", "no_rule"};
  return kNames.at(static_cast<size_t>(ending));
}

}  // namespace vram::alerts
