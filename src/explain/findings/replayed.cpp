#include "explain/findings/replayed.hpp"

#include "base/bytes.hpp"
#include "explain/findings/findings.hpp"
#include "explain/whatif/what_if.hpp"
#include "replay/replay.hpp"

#include <fmt/format.h>

namespace vram::explain {
namespace {

std::string end_of(const WhatIf& replay) {
  if (!replay.completed) return "runs out of memory";
  return fmt::format("completes with {} reserved at its peak",
                     format_bytes(replay.peak_reserved_bytes));
}

}  // namespace

Help expandable_helps(const DeviceReport& report) {
  const WhatIf* own = what_if_recorded(report);
  const WhatIf* other = what_if(report, replay::kExpandableSpec);
  if (own == nullptr || other == nullptr || own == other) return Help::kUnknown;
  if (own->completed != other->completed) return other->completed ? Help::kYes : Help::kNo;
  const double most = (1 - kMinWasteShare) * static_cast<double>(own->peak_reserved_bytes);
  const bool is_less = static_cast<double>(other->peak_reserved_bytes) <= most;
  return own->completed && is_less ? Help::kYes : Help::kNo;
}

std::string replayed_with_expandable(const DeviceReport& report) {
  if (expandable_helps(report) == Help::kUnknown) return "";
  const WhatIf& own = *what_if_recorded(report);
  const WhatIf& other = *what_if(report, replay::kExpandableSpec);
  const bool is_estimate = other.basis == replay::Basis::kEstimate;
  const std::string_view doubt = is_estimate ? " (an estimate)" : "";
  if (!own.completed || !other.completed) {
    const std::string limit =
        report.what_if->capacity_bytes
            ? fmt::format(" at the limit of {}", format_bytes(*report.what_if->capacity_bytes))
            : std::string();
    return fmt::format(" Replayed with expandable_segments{}, this program {}{}.", limit,
                       end_of(other), doubt);
  }
  return fmt::format(" Replayed with it, this program reserves {} at its peak instead of {}{}.",
                     format_bytes(other.peak_reserved_bytes), format_bytes(own.peak_reserved_bytes),
                     doubt);
}

}  // namespace vram::explain
