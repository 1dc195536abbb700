// Segments in which blocks that stay for long are mixed with blocks that come and go.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "explain/findings/findings.hpp"
#include "explain/moment/breakdown.hpp"
#include "explain/waste/patterns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace vram::explain {
namespace {

constexpr size_t kNamedSites = 3;

// The long-lived blocks of one site, and the free memory of their segments.
struct MixedSite {
  std::string name;
  uint64_t live_bytes = 0;
  uint64_t stranded_bytes = 0;
};

struct MixedSegments {
  std::vector<uint32_t> long_lived;
  std::vector<MixedSite> sites;  // most stranded bytes first
  uint64_t segment_count = 0;
  uint64_t stranded_bytes = 0;
  uint64_t pinned_bytes = 0;  // in segments of which live blocks use kMaxPinningShare or less
};

// Made after the first step began, and still there two steps later.
bool is_long_lived(const WasteIndex& index, const Lifetime& block) {
  const auto first_step = static_cast<int64_t>(index.report().steps.steps.front().first_event);
  if (born(block) < first_step || index.is_private(block)) return false;
  return released(block) == kNeverGone ||
         released(block) - born(block) >= static_cast<int64_t>(2 * index.step_events());
}

uint64_t free_bytes(const WasteIndex& index, const LiveSet& live, const SegmentView& segment) {
  uint64_t bytes = 0;
  for_each_hole(index.history(), live, segment,
                [&](uint64_t, uint64_t size_bytes) { bytes += size_bytes; });
  return bytes;
}

// The free bytes of a segment are shared among the sites of its long-lived blocks by their bytes.
MixedSegments find_mixed(WasteIndex& index, const LiveSet& live) {
  MixedSegments mixed;
  std::map<std::string, MixedSite> sites;
  for (const SegmentView& segment : view_segments(index.history(), live)) {
    const uint64_t free = free_bytes(index, live, segment);
    std::vector<uint32_t> ids;
    uint64_t live_bytes = 0;
    for (size_t i = segment.first; i < segment.last; ++i)
      if (is_long_lived(index, index.block(live.lifetimes[i]))) ids.push_back(live.lifetimes[i]);
    if (free == 0 || ids.empty()) continue;
    for (const uint32_t id : ids) live_bytes += index.block(id).block_bytes;
    for (const uint32_t id : ids) {
      const Lifetime& block = index.block(id);
      const std::string line = index.place(block) == 0 ? "" : index.line(block);
      MixedSite& site = sites[line.empty() ? size_class_name(block.requested_bytes) : line];
      site.live_bytes += block.block_bytes;
      site.stranded_bytes +=
          static_cast<uint64_t>(static_cast<double>(free) * static_cast<double>(block.block_bytes) /
                                static_cast<double>(live_bytes));
    }
    mixed.long_lived.insert(mixed.long_lived.end(), ids.begin(), ids.end());
    ++mixed.segment_count;
    mixed.stranded_bytes += free;
    const auto used = static_cast<double>(segment.range.size_bytes - free);
    if (used <= kMaxPinningShare * static_cast<double>(segment.range.size_bytes))
      mixed.pinned_bytes += free;
  }
  for (auto& [name, site] : sites) {
    site.name = name;
    mixed.sites.push_back(std::move(site));
  }
  std::ranges::stable_sort(mixed.sites, std::greater(), &MixedSite::stranded_bytes);
  return mixed;
}

std::string sites_text(const MixedSegments& mixed) {
  std::string text;
  for (size_t i = 0; i < std::min(mixed.sites.size(), kNamedSites); ++i) {
    const MixedSite& site = mixed.sites[i];
    text += trf("{}{} ({} next to {} of free memory)", i == 0 ? "" : tr(", "), site.name,
                format_bytes(site.live_bytes), format_bytes(site.stranded_bytes));
  }
  return text;
}

}  // namespace

bool may_have_mixed_segments(const WasteIndex& index) {
  const DeviceReport& report = index.report();
  return index.step_events() > 0 &&
         matters(report.at_reserved_peak.waste.stranded_bytes, kMinSavedShare,
                 report.peak.reserved.totals.reserved_bytes);
}

std::vector<Finding> mixed_lifetimes(WasteIndex& index, ReservedReplay& replay) {
  if (!may_have_mixed_segments(index)) return {};
  const Sources& sources = index.sources();
  const std::vector<int64_t> moments = {index.report().at_reserved_peak.moment.event};
  const LiveSet live = gather_live(sources.trace, sources.device, sources.history, moments)[0];
  const MixedSegments mixed = find_mixed(index, live);
  const uint64_t reserved = index.report().peak.reserved.totals.reserved_bytes;
  if (!matters(mixed.stranded_bytes, kMinSavedShare, reserved)) return {};
  const std::optional<uint64_t> saved = replay.saved_by_moving_first(mixed.long_lived);
  if (!saved || !matters(*saved, kMinSavedShare, reserved)) return {};
  Finding finding{
      FindingKind::kMixedLifetimes, *saved,
      trf("Blocks that stay are mixed with blocks that come and go: {} ({} of reserved)",
          format_bytes(*saved), format_share(*saved, reserved)),
      trf("When most memory was reserved, {} of free memory were in {} segments with {} blocks "
          "that were made after the first step began and stayed for two steps or longer; {} "
          "of it where live blocks use an eighth of the segment or less: {}. Replayed with "
          "these blocks allocated before all others, the reserved peak is {} instead of {}.",
          format_bytes(mixed.stranded_bytes), format_count(mixed.segment_count),
          format_count(mixed.long_lived.size()), format_bytes(mixed.pinned_bytes),
          sites_text(mixed), format_bytes(reserved - *saved), format_bytes(reserved)),
      tr("Allocate what stays before the first step: create the optimizer's state and the averages "
         "of "
         "the weights at set-up, or run one step with a small batch and empty the cache once.")};
  finding.saves_bytes = 0;
  finding.saves_reserved_bytes = saved;
  const Lifetime& largest = index.block(*std::ranges::max_element(
      mixed.long_lived, {}, [&](uint32_t id) { return index.block(id).block_bytes; }));
  if (index.place(largest) != 0) finding.line = index.line(largest);
  return {std::move(finding)};
}

}  // namespace vram::explain
