#include "explain/waste/patterns.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "explain/findings/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>

namespace vram::explain {

Patterns finding_if_saved(WasteIndex& index, double min_share, Finding finding,
                          const std::vector<Change>& changes) {
  const uint64_t saved = index.replay().saved_by(changes);
  const uint64_t peak = index.peak_bytes();
  if (!matters(saved, min_share, peak)) return {};
  finding.bytes = saved;
  finding.saves_bytes = saved;
  finding.title += trf("; saves {} ({})", format_bytes(saved), format_share(saved, peak));
  finding.detail += trf(" Replayed with this change, the requested peak is {} instead of {}.",
                        format_bytes(peak - saved), format_bytes(peak));
  return {{std::move(finding), changes}};
}

namespace {

void replay_reserved(ReservedReplay& replay, const DeviceReport& report, Pattern& pattern) {
  pattern.finding.saves_reserved_bytes = replay.saved_by(pattern.changes);
  if (!pattern.finding.saves_reserved_bytes) return;
  const uint64_t peak = report.peak.reserved.totals.reserved_bytes;
  const uint64_t saved = *pattern.finding.saves_reserved_bytes;
  pattern.finding.detail += saved == 0 ? tr(" The reserved peak stays.")
                                       : trf(" The reserved peak falls by {} ({}).",
                                             format_bytes(saved), format_share(saved, peak));
}

bool has_changes(const Pattern& pattern) { return !pattern.changes.empty(); }

}  // namespace

std::vector<Finding> find_patterns(const Sources& sources, const DeviceReport& report,
                                   const replay::Baseline& baseline) {
  // A recording that contradicts itself shows no lifetimes for certain.
  if (report.verdict.confidence == Confidence::kContradiction) return {};
  WasteIndex index(sources, report);
  constexpr std::array kPatterns = {gradients_kept,   idle_state,  late_free,    prefetch,
                                    no_grad,          temporaries, old_model,    stream_duplicates,
                                    equal_parameters, upcasts,     driver_churn, data_parallel};
  Patterns all;
  if (report.is_host) {
    all = pinned_host(index);
  } else {
    for (const auto& pattern : kPatterns)
      std::ranges::move(pattern(index), std::back_inserter(all));
  }
  std::ranges::stable_sort(all, std::greater(),
                           [](const Pattern& each) { return each.finding.bytes; });
  std::vector<Finding> findings;
  if (may_have_mixed_segments(index) || std::ranges::any_of(all, has_changes)) {
    ReservedReplay replay(sources, report, baseline);
    for (size_t i = 0; i < std::min(all.size(), kMaxReservedReplays); ++i)
      if (has_changes(all[i])) replay_reserved(replay, report, all[i]);
    findings = mixed_lifetimes(index, replay);
  }
  for (Pattern& each : all) findings.push_back(std::move(each.finding));
  return findings;
}

}  // namespace vram::explain
