#include "explain/findings/remedy.hpp"

#include "base/bytes.hpp"
#include "explain/whatif/what_if.hpp"
#include "replay/replay.hpp"
#include "replay/tune/pytorch_conf.hpp"

#include <fmt/format.h>

namespace vram::explain {
namespace {

std::string outcome(const WhatIfs& replays, const WhatIf& own, const WhatIf& other) {
  const std::string_view doubt = other.basis == replay::Basis::kEstimate ? " (an estimate)" : "";
  if (own.completed) {
    return fmt::format("Replayed so, this program reserves {} at its peak instead of {}{}.",
                       format_bytes(other.peak_reserved_bytes),
                       format_bytes(own.peak_reserved_bytes), doubt);
  }
  const std::string limit =
      replays.capacity_bytes
          ? fmt::format(" {} {}",
                        replays.capacity_is_assumed ? "with no more than" : "at the limit of",
                        format_bytes(*replays.capacity_bytes))
          : "";
  return fmt::format("Replayed so{}, this program completes with {} reserved at its peak{}.", limit,
                     format_bytes(other.peak_reserved_bytes), doubt);
}

}  // namespace

std::string recommended_setting(const trace::Trace& trace, const DeviceReport& report) {
  const WhatIf* best = what_if_recommended(report);
  const WhatIf* own = what_if_recorded(report);
  if (best == nullptr || own == nullptr) return "";
  const replay::AllocatorSpec spec = replay::parse_spec(best->allocator).value();
  const std::string before = replay::pytorch_conf(replay::recorded_spec(trace)).value_or("");
  std::string text =
      spec.settings.empty()
          ? fmt::format("Remove `{}`: `{}` before Python starts.", before,
                        replay::export_line(spec))
          : fmt::format("Set `{}`{} before Python starts.", replay::export_line(spec),
                        before.empty() ? "" : " in place of `" + before + "`");
  text += " " + outcome(*report.what_if, *own, *best);
  for (const std::string& note : replay::setting_notes(spec)) text += " Note: " + note + ".";
  return text;
}

uint64_t recommended_saves(const DeviceReport& report) {
  const WhatIf* best = what_if_recommended(report);
  const WhatIf* own = what_if_recorded(report);
  if (best == nullptr || own == nullptr || !own->completed) return 0;
  return own->peak_reserved_bytes - best->peak_reserved_bytes;
}

}  // namespace vram::explain
