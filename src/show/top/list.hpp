// The process list: titles, rows, selection and tags. A pure function.
#pragma once

#include "show/top/grid.hpp"
#include "show/top/view.hpp"

namespace vram::show::top {

void draw_list(const View& view, const TopState& state, const watch::Snapshot& snapshot,
               bool has_cursor, Grid& grid);

}  // namespace vram::show::top
