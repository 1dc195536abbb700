// Alert: one rule that holds for one device, process or source. A value; Judge makes them, show/
// and serve/ hand them on.
#pragma once

#include "watch/rules/measures.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace vram::watch {

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

}  // namespace vram::watch
