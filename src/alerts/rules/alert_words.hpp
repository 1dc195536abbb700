// Texts of alerts: their subjects for people, and as labels for programs. Processes choose their
// command lines, so every text is made printable and bounded. Pure functions.
#pragma once

#include "alerts/judge/subject.hpp"
#include "alerts/rules/rule.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace vram::alerts {

// The fields that {…} in a summary can refer to.
[[nodiscard]] std::span<const std::string> summary_fields();

// "GPU 3 (NVIDIA H200)"; for an instance, with "MIG 1/0 of" before it.
[[nodiscard]] std::string device_text(const Measured& measured);
// "process 4711 (ann: python3 train.py)".
[[nodiscard]] std::string process_text(const Measured& measured);
// Returns a rule's summary with its fields filled in; `held_ns`: for how long it has held.
[[nodiscard]] std::string summary_text(const Rule& rule, const Measured& measured, double value,
                                       uint64_t held_ns);

// alertname, severity, gpu, uuid, pid, pod and the like, and the rule's own.
[[nodiscard]] std::map<std::string, std::string> labels_of(const Rule& rule,
                                                           const Measured& measured);
[[nodiscard]] std::map<std::string, std::string> annotations_of(const Measured& measured);

// Identifies the rule and the subject; the same each time the alert fires.
[[nodiscard]] std::string alert_id(const Rule& rule, const Measured& measured);

}  // namespace vram::alerts
