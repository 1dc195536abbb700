// Texts of a report's enumerations: identifiers (JSON), and phrases for people.
#pragma once

#include "explain/ranks/ranks.hpp"
#include "explain/report.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace vram::show {

// Identifiers, stable across versions: "user_frame", "annotations", "leak", "fragmentation",
// "exact", "time".
[[nodiscard]] std::string_view identifier(explain::Dimension dimension);
[[nodiscard]] std::string_view identifier(explain::StepSource source);
[[nodiscard]] std::string_view identifier(explain::GrowthKind kind);
[[nodiscard]] std::string_view identifier(explain::LeakVerdict verdict);
[[nodiscard]] std::string_view identifier(explain::FindingKind kind);
[[nodiscard]] std::string_view identifier(explain::Confidence confidence);
[[nodiscard]] std::string_view identifier(explain::Clock clock);
[[nodiscard]] std::string_view identifier(explain::RestKind kind);
[[nodiscard]] std::string_view identifier(explain::RankMeasure measure);

// "end state reproduced exactly", ...
[[nodiscard]] std::string_view phrase(explain::Confidence confidence);
// "by line of your code", ...
[[nodiscard]] std::string_view phrase(explain::Dimension dimension);

// A holder's name as people read it: the names that explain/ gives to what has no place, and those
// of size classes, ages, pools and categories, in the language of the user.
[[nodiscard]] std::string holder_text(explain::Dimension by, std::string_view name);

// "GPU 0", "pinned host memory"
[[nodiscard]] std::string device_name(const explain::DeviceReport& device);
// "8.31 s", or "event 1,234" in a recording without a clock.
[[nodiscard]] std::string time_text(explain::Clock clock, int64_t time_ns);
// "at 8.31 s in step 21"
[[nodiscard]] std::string when(explain::Clock clock, const explain::DeviceReport& device,
                               const explain::Moment& moment);
// The index of the step that contains an event; nothing between and outside steps.
[[nodiscard]] std::optional<size_t> step_of(const explain::Steps& steps, int64_t event);

}  // namespace vram::show
