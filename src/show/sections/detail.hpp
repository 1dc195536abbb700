// Detail: how much of a report is drawn. If it is longer than the screen, it is drawn again without
// the least important remaining part.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace vram::show {

struct Detail {
  static constexpr size_t kAll = std::numeric_limits<size_t>::max();

  size_t devices = kAll;
  int plot_rows = 9;       // 0: no timeline
  size_t holders = 8;      // of each table
  bool has_shares = true;  // a line for each other grouping of holders
  size_t categories = 8;
  bool has_waste_notes = true;  // what holds segments open, and the largest fit
  bool has_steps = true;
  bool has_step_table = true;
  size_t growths = 4;
  bool has_phases = true;
  size_t ooms = 3;
  size_t what_ifs = kAll;
  size_t findings = kAll;
  size_t evidence = kAll;  // findings with their evidence
  size_t advice = kAll;
  bool has_notes = true;
};

// Each leaves out a little more; in the order in which they are tried.
[[nodiscard]] std::span<void (*const)(Detail&)> reductions();

}  // namespace vram::show
