// Sorted rows put below their parents. Whatever the kernel's figures claim, every row comes out
// once: a parent counts only if it began no later than its child (else the number belongs to
// somebody else by now), and of a circle one is the root. Several children of a parent that uses no
// GPU, as a launcher with its ranks, get a row for it. Pure functions.
#pragma once

#include "show/top/rows.hpp"

#include <cstdint>
#include <set>
#include <vector>

namespace vram::show::top {

// The rows of one process stay together; families stand where their first row stood.
[[nodiscard]] std::vector<Row> as_tree(std::vector<Row> sorted, const std::set<uint32_t>& folded);

}  // namespace vram::show::top
