// The exact contents of a device's recording, from which the page restores any moment: the life of
// every block, the segments, the times of events, the scopes and the samples of the device. Numbers
// of events are coded as positions: the number of events that had happened, so 0 is before the
// first one. Pure; linear in the events.
#pragma once

#include "explain/moment/device_view.hpp"
#include "pages/block.hpp"
#include "pages/groups.hpp"
#include "pages/texts.hpp"

#include <string>
#include <vector>

namespace vram::pages {

// Pages read large recordings in parts of this many positions, of which they hold a few at a time.
// A power of two, and a multiple of every size of bins (overview.hpp) up to it.
inline constexpr uint64_t kPartPositions = uint64_t{1} << 24;

// A block "PREFIX.lifetimesN" for each part, and "PREFIX.kinds".
//
// Lifetimes of blocks that are active somewhere in the part, in the history's order (before the
// recording first, then by allocation): its number, as the difference from the one before; the
// position of the allocation, also as a difference; how many positions later it is free
// again, 0: never; how many positions before that the free was requested, or, of a block that is
// not freed, 0 or one more than the positions from its allocation to the request; its kind; its
// address, as an index of the addresses. Then the addresses in rising order, as differences.
//
// Kinds are what many blocks share: requested bytes, block bytes, stack, and the number of its
// group in each of `groups`.
[[nodiscard]] std::vector<Block> lifetime_blocks(const std::string& prefix,
                                                 const explain::DeviceView& view,
                                                 const std::vector<Groups>& groups,
                                                 PageTexts& texts,
                                                 uint64_t part_positions = kPartPositions);

// Columns: position (difference), what (0 added, 1 removed; +2 expandable; +4 for small requests;
// +8 of a private pool), address (difference), bytes, stream, stack. Segments from before the
// recording come first, with position 0.
[[nodiscard]] Block segment_block(std::string name, const explain::DeviceView& view,
                                  PageTexts& texts);

// Blocks "PREFIX.timesN": the time of each position of a part as the difference from the one
// before, in units of `unit_ns`; never falling, where the clock stepped back. The first position of
// a part has its whole time. Empty without a clock.
struct Times {
  int64_t unit_ns = 1;
  std::vector<Block> blocks;
};
[[nodiscard]] Times time_blocks(const std::string& prefix, const explain::DeviceView& view,
                                uint64_t part_positions = kPartPositions);

// Columns: name, depth, first position (difference), positions, begin (difference) and duration in
// nanoseconds. The longest kMaxScopes.
inline constexpr size_t kMaxScopes = 100'000;
[[nodiscard]] Block scope_block(std::string name, const explain::DeviceView& view,
                                PageTexts& texts);

// The device's used memory as the driver counted it, of all processes and its own. Columns: the
// time of the sample in nanoseconds since the recording's first event, and its bytes, both as the
// difference from the sample before. Of more than kMaxSamples, each run of equal length has its
// largest. Empty without a clock.
inline constexpr size_t kMaxSamples = 20'000;
[[nodiscard]] Block sample_block(std::string name, const explain::DeviceView& view);

}  // namespace vram::pages
