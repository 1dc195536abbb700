// Arranges sorted rows below their parents. Whatever the kernel reports, every row appears once: a
// parent counts only if it started no later than its child (else the pid was reused), and of a
// cycle, one process is the root. Several children of a parent without a GPU, such as a launcher of
// ranks, get a row for it. Pure functions.
#pragma once

#include "show/top/rows.hpp"

#include <cstdint>
#include <set>
#include <vector>

namespace vram::show::top {

// The rows of a process stay together; a family has the place of its first row.
[[nodiscard]] std::vector<Row> as_tree(std::vector<Row> sorted, const std::set<uint32_t>& folded);

}  // namespace vram::show::top
