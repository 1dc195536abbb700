// screen: vram top's whole screen as a grid, a pure function of the user's choices, the sample, and
// the time.
//
//     TopState, History, Sampled, Clock, Size ──▶ draw() ──▶ Grid ──▶ terminal, or text
#pragma once

#include "show/top/grid.hpp"
#include "show/top/state.hpp"
#include "show/top/view.hpp"
#include "watch/sampler.hpp"

#include <cstdint>

namespace vram::show::top {

struct Clock {
  uint64_t now_ns = 0;      // monotonic
  uint64_t overdue_ns = 0;  // how much longer than the period the current sample takes
};

struct Surface {
  Size size;
  bool unicode = true;
  bool is_still = false;  // one picture on paper: no selection, no keys
};

// `sampled` is nullptr before the first sample.
[[nodiscard]] Grid draw(const TopState& state, const History& history,
                        const watch::Sampled* sampled, Clock clock, Surface surface);

// The process list: titles, rows, selection and tags. A pure function.

void draw_list(const View& view, const TopState& state, const watch::Snapshot& snapshot,
               bool has_cursor, Grid& grid);

}  // namespace vram::show::top
