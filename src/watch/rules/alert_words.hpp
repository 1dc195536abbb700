// The words of alerts: what they are about, in people's words and as labels for programs. Processes
// choose their command lines: every text comes out printable and bounded. Pure functions.
#pragma once

#include "watch/rules/rule.hpp"
#include "watch/rules/subject.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace vram::watch {

// What {…} may stand for in a summary.
[[nodiscard]] std::span<const std::string> summary_fields();

// "GPU 3 (NVIDIA H200)", with "MIG 1/0 of" before it where it is about an instance.
[[nodiscard]] std::string device_text(const Measured& measured);
// "process 4711 (ann: python3 train.py)".
[[nodiscard]] std::string process_text(const Measured& measured);
// The summary of a rule with its fields filled in; `held_ns`: it has held for so long.
[[nodiscard]] std::string summary_text(const Rule& rule, const Measured& measured, double value,
                                       uint64_t held_ns);

// alertname, severity, gpu, uuid, pid, pod and the like, and the rule's own.
[[nodiscard]] std::map<std::string, std::string> labels_of(const Rule& rule,
                                                           const Measured& measured);
[[nodiscard]] std::map<std::string, std::string> annotations_of(const Measured& measured);

// The rule and what the alert is about: the same each time it comes back.
[[nodiscard]] std::string alert_id(const Rule& rule, const Measured& measured);

}  // namespace vram::watch
