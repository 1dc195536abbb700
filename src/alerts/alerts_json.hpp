// Alerts and rules for programs: vram.alerts/1, vram.rules/1, vram.silences/1, documented field by
// field in docs/json.md; and for logs: a line each, as JSON in the names of ECS (Elastic Common
// Schema) or as text. Pure functions.
#pragma once

#include "alerts/alert.hpp"
#include "alerts/rules/rule_book.hpp"
#include "alerts/silences.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace vram::alerts {

// The host and time of an alerts document.
struct AlertsMoment {
  int64_t time_unix_ns = 0;
  std::string host;
};

// One document with a newline at its end. ASCII alone, as in status_json.
// As receivers get it: those whose beginning is withheld are not in it.
[[nodiscard]] std::string alerts_json(const AlertsMoment& moment, std::span<const Alert> alerts);
// Each alert has the number of its silence.
[[nodiscard]] std::string alerts_json(const AlertsMoment& moment, std::span<const Alert> alerts,
                                      const Silences& silences);
[[nodiscard]] std::string silences_json(const AlertsMoment& moment, const Silences& silences);
[[nodiscard]] std::string rules_json(const RuleBook& book);

// Without a newline.
[[nodiscard]] std::string alert_log_json(const AlertsMoment& moment, const Alert& alert);
// "2026-11-22 09:14:05 UTC node17 firing critical xid-critical: GPU 3 (…): Xid 79, …; do: …"
[[nodiscard]] std::string alert_log_text(const AlertsMoment& moment, const Alert& alert);

}  // namespace vram::alerts
