#include "pages/overview.hpp"

#include "base/varint.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

namespace vram::pages {
namespace {

using explain::DeviceView;
using explain::Totals;

struct Bin {
  uint64_t peak_offset = 0;
  Totals largest;
  uint64_t smallest_requested_bytes = std::numeric_limits<uint64_t>::max();
};

std::vector<Bin> find_bins(const DeviceView& view, uint64_t bin_positions) {
  const uint64_t positions = view.device.event_count + 1;
  std::vector<Bin> bins((positions + bin_positions - 1) / bin_positions);
  explain::TotalsWalker walker(view.trace.events_of(view.device), view.history);
  for (uint64_t position = 0; position < positions; ++position) {
    if (position > 0) (void)walker.step();
    Bin& bin = bins[position / bin_positions];
    const Totals& now = walker.totals();
    const bool is_first = position % bin_positions == 0;
    if (is_first || now.requested_bytes > bin.largest.requested_bytes) {
      bin.peak_offset = position % bin_positions;
      bin.largest.requested_bytes = now.requested_bytes;
    }
    bin.smallest_requested_bytes = std::min(bin.smallest_requested_bytes, now.requested_bytes);
    bin.largest.allocated_bytes = std::max(bin.largest.allocated_bytes, now.allocated_bytes);
    bin.largest.active_bytes = std::max(bin.largest.active_bytes, now.active_bytes);
    bin.largest.reserved_bytes = std::max(bin.largest.reserved_bytes, now.reserved_bytes);
  }
  return bins;
}

template <typename Value>
Column differences(const std::vector<Bin>& bins, Value&& value) {
  Column column;
  uint64_t before = 0;
  for (size_t i = 0; i < bins.size(); ++i) {
    const uint64_t now = value(i);
    put_signed(column, wrapping_difference(now, before));
    before = now;
  }
  return column;
}

// The bytes of the first groups at each bin's peak.
Column group_column(const DeviceView& view, const Groups& groups, const std::vector<Bin>& bins,
                    uint64_t bin_positions) {
  const size_t shown = std::min(groups.names.size(), kShownGroups);
  std::vector<uint64_t> now(groups.names.size());
  std::vector<std::vector<uint64_t>> at_peaks(shown);  // by group and bin
  uint64_t next = 0;
  explain::History const& history = view.history;
  walk_blocks(
      history,
      [&](uint32_t id, bool is_added) {
        const uint64_t bytes = history.lifetimes[id].requested_bytes;
        now[groups.of_lifetime[id]] += is_added ? bytes : -bytes;
      },
      [&](int64_t event) {
        const auto position = static_cast<uint64_t>(event + 1);
        if (position != next * bin_positions + bins[next].peak_offset) return;
        for (size_t group = 0; group < shown; ++group) at_peaks[group].push_back(now[group]);
        // After the last bin's peak, `next` stays beyond all positions.
        next = std::min(next + 1, static_cast<uint64_t>(bins.size()) - 1);
      });
  Column column;
  for (const auto& values : at_peaks) {
    uint64_t before = 0;
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      put_signed(column, wrapping_difference(values[bin], before));
      before = values[bin];
    }
  }
  return column;
}

}  // namespace

uint64_t positions_per_bin(uint64_t events) {
  return std::bit_ceil((events + kMaxBins) / kMaxBins);
}

Block overview_block(std::string name, const DeviceView& view, const std::vector<Groups>& groups) {
  const uint64_t bin_positions = positions_per_bin(view.device.event_count);
  const std::vector<Bin> bins = find_bins(view, bin_positions);
  std::vector<Column> columns;
  Column offsets;
  for (const Bin& bin : bins) put_varint(offsets, bin.peak_offset);
  columns.push_back(std::move(offsets));
  columns.push_back(differences(bins, [&](size_t i) { return bins[i].largest.requested_bytes; }));
  columns.push_back(differences(bins, [&](size_t i) { return bins[i].smallest_requested_bytes; }));
  columns.push_back(differences(bins, [&](size_t i) { return bins[i].largest.allocated_bytes; }));
  columns.push_back(differences(bins, [&](size_t i) { return bins[i].largest.active_bytes; }));
  columns.push_back(differences(bins, [&](size_t i) { return bins[i].largest.reserved_bytes; }));
  columns.push_back(differences(bins, [&](size_t i) {
    const auto event = static_cast<int64_t>(i * bin_positions) - 1;
    return static_cast<uint64_t>(view.clock.time_ns(event));
  }));
  for (const Groups& of : groups) columns.push_back(group_column(view, of, bins, bin_positions));
  std::vector<const Column*> parts;
  for (const Column& column : columns) parts.push_back(&column);
  return columns_block(std::move(name), parts);
}

}  // namespace vram::pages
