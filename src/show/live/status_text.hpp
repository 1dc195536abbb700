// vram status as text: a line for each device, with its processes, unattributed memory and
// problems. A pure function of the snapshot and the terminal's properties.
#pragma once

#include "show/draw/line.hpp"
#include "show/draw/page.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::show {

// Uses 60 to 240 columns; from 140 on, a process takes one line.
[[nodiscard]] std::string draw_status(const watch::Snapshot& snapshot,
                                      const TextOptions& options = {});

// The lines about processes in vram status: all of a machine's in one table, so that columns agree
// from device to device. Part of status_text. Pure functions.

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
