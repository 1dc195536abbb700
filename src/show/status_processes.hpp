// The lines about processes in vram status: all of a machine's in one table, so that columns agree
// from device to device. Part of status_text. Pure functions.
#pragma once

#include "show/draw/line.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <vector>

namespace vram::show {

inline constexpr int kProcessIndent = 5;

struct ProcessLines {
  Line titles;  // empty without processes
  struct Entry {
    uint32_t device = 0;
    std::vector<Line> lines;
  };
  std::vector<Entry> entries;  // by pid, one for each use
};

[[nodiscard]] ProcessLines draw_processes(const watch::Snapshot& snapshot, int columns);

}  // namespace vram::show
