#include "explain/waste/patterns.hpp"

#include "base/bytes.hpp"
#include "explain/findings/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace vram::explain {

Findings finding_if_saved(WasteIndex& index, double min_share, Finding finding,
                          const std::vector<Change>& changes) {
  const uint64_t saved = index.replay().saved_by(changes);
  const uint64_t peak = index.peak_bytes();
  if (!matters(saved, min_share, peak)) return {};
  finding.bytes = saved;
  finding.saves_bytes = saved;
  finding.detail +=
      fmt::format(" Replayed with this change, the requested peak is {} instead of {}.",
                  format_bytes(peak - saved), format_bytes(peak));
  return {std::move(finding)};
}

Findings find_patterns(const Sources& sources, const DeviceReport& report) {
  // A recording that contradicts itself shows no lifetimes for certain.
  if (report.verdict.confidence == Confidence::kContradiction) return {};
  WasteIndex index(sources, report);
  if (report.is_host) return pinned_host(index);
  constexpr std::array kPatterns = {
      gradients_kept, idle_state,        late_free, prefetch,         no_grad,     temporaries,
      old_model,      stream_duplicates, upcasts,   equal_parameters, driver_churn};
  Findings all;
  for (const auto& pattern : kPatterns) {
    Findings found = pattern(index);
    std::ranges::move(found, std::back_inserter(all));
  }
  return all;
}

}  // namespace vram::explain
