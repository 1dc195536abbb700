// RotorTable: the added time of reversing each interval of stages with each number of memory slots:
// the table of the rotor's dynamic program (Beaumont et al., 2019), windowed.
//
// Only suffixes [s, last] and intervals of up to `window` stages are in it: others are reached only
// through a sweep (a run of stages without keeping anything) longer than the window. A row ends at
// the slot from which everything can be kept, and begins at the first one that suffices, so short
// intervals have short rows. Added time: beyond one run of each stage with its fastest option.
// Times are floats, exact up to 2^24 ns; what a schedule really takes is what verify() says.
#pragma once

#include "plan/solve/needs.hpp"

#include <cstdint>
#include <span>

namespace vram::plan {

enum class Rounding : uint8_t {
  kNearest,  // errors of many stages cancel out
  kDown,     // too optimistic: its times are lower bounds
};

struct Grid {
  uint64_t unit_bytes = 1;  // of a slot
  uint32_t slots = 0;       // the budget: only up to this many are computed
  Rounding rounding = Rounding::kNearest;
};

class RotorTable {
 public:
  RotorTable(const Needs& needs, const Grid& grid);

  // Computes all rows for this window, which is larger than the one before. False, and nothing is
  // changed, if the table would need more than max_bytes, or more than max_updates of its cells.
  [[nodiscard]] bool widen(uint32_t window, uint64_t max_bytes, uint64_t max_updates);

  // Infinite if `slots` do not suffice. For t < s + window, or t the last stage.
  [[nodiscard]] float added_ns(uint32_t s, uint32_t t, uint64_t slots) const;
  [[nodiscard]] const Grid& grid() const { return grid_; }
  [[nodiscard]] uint32_t window() const { return window_; }
  [[nodiscard]] uint64_t size_bytes() const;

 private:
  // The cells of one interval, for slots [first, last]; with more than `last`, time does not
  // change.
  struct Row {
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t saved = 0;  // the slots that keeping everything needs
    uint64_t offset = 0;

    bool is_empty() const { return first > last; }
    uint64_t size() const { return is_empty() ? 0 : uint64_t{last} - first + 1; }
  };
  // All intervals of one length, or all suffixes.
  struct Level {
    std::vector<Row> rows;  // by first stage
    uint64_t cell_count = 0;
    std::vector<float> cells;
  };
  struct View {
    const float* cells;
    uint32_t first;
    uint32_t last;
  };
  struct StageSlots {
    uint32_t output = 0;
    uint32_t gradients = 0;
    uint32_t sweep_first = 0;
    uint32_t sweep = 0;
    float forward_ns = 0;
  };
  struct OptionSlots {
    uint32_t kept = 0;
    uint32_t forward = 0;
    uint32_t backward = 0;
    float extra_ns = 0;
  };

  uint32_t slots_of(uint64_t bytes) const;
  std::span<const OptionSlots> options_of(uint32_t s) const {
    return std::span(options_).subspan(first_option_[s], first_option_[s + 1] - first_option_[s]);
  }
  uint32_t save_slots(const OptionSlots& option, uint32_t t) const {
    return std::max(stages_[t].gradients + option.forward, option.backward);
  }
  uint32_t sweep_slots(uint32_t s, uint32_t k) const {
    return k == s ? stages_[k].sweep_first : stages_[k].sweep;
  }

  const Row& row(uint32_t s, uint32_t t) const {
    return t + 1 == count_ ? suffixes_.rows[s] : levels_[t - s].rows[s];
  }
  View view(uint32_t s, uint32_t t) const;
  Row measure(uint32_t s, uint32_t t, uint32_t longest_sweep) const;
  // Adds the rows without their cells, and returns how many updates of cells they need.
  uint64_t measure_level(uint32_t distance);
  uint64_t measure_suffixes(uint32_t window);
  void fill(Level& level, uint32_t s, uint32_t t, uint32_t longest_sweep);

  Grid grid_;
  uint32_t count_;
  uint32_t window_ = 0;
  std::vector<StageSlots> stages_;
  std::vector<uint32_t> first_option_;  // by stage; one more at the end
  std::vector<OptionSlots> options_;
  std::vector<uint32_t> fastest_;
  std::vector<Level> levels_;  // by length - 1
  Level suffixes_;
};

}  // namespace vram::plan
