// The exact contents of a device's recording, from which the page restores any moment: the life of
// every block, the segments, the times of events and the scopes. Numbers of events are coded as
// positions: the number of events that had happened, so 0 is before the first one. Pure; linear in
// the events.
#pragma once

#include "explain/moment/device_view.hpp"
#include "pages/block.hpp"
#include "pages/groups.hpp"
#include "pages/texts.hpp"

#include <string>
#include <vector>

namespace vram::pages {

// Two blocks, "PREFIX.lifetimes" and "PREFIX.kinds".
//
// Lifetimes, in the history's order (before the recording first, then by allocation): the position
// of the allocation, as the difference from the one before; how many positions later it is free
// again, 0: never; how many positions before that the free was requested, or, of a block that is
// not freed, 0 or one more than the positions from its allocation to the request; its kind; its
// address, as an index of the addresses. Then the addresses in rising order, as differences.
//
// Kinds are what many blocks share: requested bytes, block bytes, stack, and the number of its
// group in each of `groups`.
[[nodiscard]] std::vector<Block> lifetime_blocks(const std::string& prefix,
                                                 const explain::DeviceView& view,
                                                 const std::vector<Groups>& groups,
                                                 PageTexts& texts);

// Columns: position (difference), what (0 added, 1 removed; +2 expandable; +4 for small requests;
// +8 of a private pool), address (difference), bytes, stream, stack. Segments from before the
// recording come first, with position 0.
[[nodiscard]] Block segment_block(std::string name, const explain::DeviceView& view,
                                  PageTexts& texts);

// The time of each event as the difference from the one before, in units of `unit_ns`; never
// falling, where the clock stepped back.
struct Times {
  int64_t unit_ns = 1;
  Block block;
};
[[nodiscard]] Times time_block(std::string name, const explain::DeviceView& view);

// Columns: name, depth, first position (difference), positions, begin (difference) and duration in
// nanoseconds. The longest kMaxScopes.
inline constexpr size_t kMaxScopes = 100'000;
[[nodiscard]] Block scope_block(std::string name, const explain::DeviceView& view,
                                PageTexts& texts);

}  // namespace vram::pages
