// Converts the judge's state to JSON and back, for a later process. The file is ours, but is
// treated as untrusted: impossible values are errors, or left out where noted.
//
// Readers throw Json::exception on unexpected JSON; the caller of restore catches it.
#pragma once

#include "alerts/alert.hpp"
#include "alerts/judge/subject.hpp"
#include "base/json.hpp"

#include <optional>

namespace vram::alerts {

template <typename Value>
void put_if_any(Json& json, const char* name, const std::optional<Value>& value) {
  if (value) json[name] = *value;
}
template <typename Value>
[[nodiscard]] std::optional<Value> get_if_any(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found == json.end() ? std::nullopt : std::optional(found->get<Value>());
}

// Returns nothing for an alert whose measure is unknown to this program.
[[nodiscard]] Json to_json(const Alert& alert);
[[nodiscard]] std::optional<Alert> alert_of(const Json& json);

// The numbers of device and source are another process's; see Measurer::names_of().
[[nodiscard]] Json to_json(const Subject& subject);
[[nodiscard]] Subject subject_of(const Json& json);

}  // namespace vram::alerts
