// The coarse level of a device's timeline, from which the page draws its first picture, and windows
// of more events than it can walk through between two frames. Positions count the events that have
// happened: 0 is the state before the first one. Equal bins of positions each have the largest and
// smallest totals in them, and the groups where most was requested, so that stacked groups add up
// to that total. Pure.
#pragma once

#include "explain/moment/device_view.hpp"
#include "pages/block.hpp"
#include "pages/groups.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::pages {

// A picture has about a bin for each of its columns.
inline constexpr uint64_t kMaxBins = 4096;
// The groups that are drawn with a colour of their own; all others are one group.
inline constexpr size_t kShownGroups = 11;

// A power of two, such that all positions fit into kMaxBins.
[[nodiscard]] uint64_t positions_per_bin(uint64_t events);

// Columns, each with a value for every bin: the offset of the position where most was requested;
// the largest requested, smallest requested, largest allocated, active and reserved bytes (each a
// signed difference from the bin before); the time where it begins (also a difference); then for
// each of `groups` a column with the bytes of its first kShownGroups groups, group by group.
[[nodiscard]] Block overview_block(std::string name, const explain::DeviceView& view,
                                   const std::vector<Groups>& groups);

}  // namespace vram::pages
