#include "plan/solve/rotor_table.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vram::plan {
namespace {

constexpr float kNeverNs = std::numeric_limits<float>::infinity();
constexpr uint32_t kTooManySlots = uint32_t{1} << 28;  // sums of a few of them do not overflow

uint32_t saturated(uint32_t slots) { return std::min(slots, kTooManySlots); }

// A row from the slot `from` on, as a function that is constant from `varying` slots later on.
struct Tail {
  const float* cells;
  uint64_t varying;

  float constant() const { return cells[varying]; }
};

void relax(float* cells, uint64_t count, float added) {
  for (uint64_t i = 0; i < count; ++i) cells[i] = std::min(cells[i], added);
}
void relax(float* cells, uint64_t count, float added, const float* part) {
  for (uint64_t i = 0; i < count; ++i) cells[i] = std::min(cells[i], added + part[i]);
}
void relax(float* cells, uint64_t count, float added, Tail part) {
  const uint64_t varying = std::min(count, part.varying);
  relax(cells, varying, added, part.cells);
  relax(cells + varying, count - varying, added + part.constant());
}
void relax(float* cells, uint64_t count, float added, Tail one, Tail other) {
  if (one.varying > other.varying) std::swap(one, other);
  const uint64_t both = std::min(count, one.varying);
  for (uint64_t i = 0; i < both; ++i)
    cells[i] = std::min(cells[i], added + one.cells[i] + other.cells[i]);
  relax(cells + both, count - both, added + one.constant(),
        Tail{other.cells + both, other.varying - both});
}

}  // namespace

RotorTable::RotorTable(const Needs& needs, const Grid& grid)
    : grid_(grid), count_(needs.stage_count()) {
  for (uint32_t i = 0; i < count_; ++i) {
    const Stage& stage = needs.stage(i);
    stages_.push_back({.output = slots_of(stage.output_bytes),
                       .gradients = slots_of(needs.gradient_bytes(i)),
                       .sweep_first = slots_of(needs.sweep_bytes(i, i)),
                       .sweep = i == 0 ? 0 : slots_of(needs.sweep_bytes(i - 1, i)),
                       .forward_ns = static_cast<float>(stage.forward_ns)});
    first_option_.push_back(static_cast<uint32_t>(options_.size()));
    fastest_.push_back(needs.fastest(i));
    for (uint32_t option = 0; option < needs.option_count(i); ++option)
      options_.push_back({.kept = slots_of(needs.option(i, option).kept_bytes),
                          .forward = slots_of(needs.save_forward_bytes(i, option)),
                          .backward = slots_of(needs.save_backward_bytes(i, option)),
                          .extra_ns = static_cast<float>(needs.extra_ns(i, option))});
  }
  first_option_.push_back(static_cast<uint32_t>(options_.size()));
}

uint32_t RotorTable::slots_of(uint64_t bytes) const {
  const uint64_t half = grid_.rounding == Rounding::kNearest ? grid_.unit_bytes / 2 : 0;
  return static_cast<uint32_t>(
      std::min<uint64_t>((bytes + half) / grid_.unit_bytes, kTooManySlots));
}

RotorTable::Row RotorTable::measure(uint32_t s, uint32_t t, uint32_t longest_sweep) const {
  Row measured{.first = kTooManySlots};
  const auto options = options_of(s);
  for (uint32_t i = 0; i < options.size(); ++i) {
    uint32_t first = save_slots(options[i], t);
    uint32_t saved = first;
    if (s < t) {
      first = std::max(first, saturated(options[i].kept + row(s + 1, t).first));
      saved = std::max(saved, saturated(options[i].kept + row(s + 1, t).saved));
    }
    measured.first = std::min(measured.first, first);
    if (i == fastest_[s]) measured.saved = saturated(saved);
  }
  uint32_t sweep = 0;
  for (uint32_t j = s; j < s + longest_sweep; ++j) {
    sweep = std::max(sweep, sweep_slots(s, j));
    measured.first =
        std::min(measured.first,
                 std::max({stages_[t].gradients + sweep,
                           saturated(stages_[j].output + row(j + 1, t).first), row(s, j).first}));
  }
  measured.last = std::min(grid_.slots, measured.saved);
  return measured;
}

uint64_t RotorTable::measure_level(uint32_t distance) {
  Level& level = levels_.emplace_back();
  uint64_t cells = 0;
  for (uint32_t s = 0; s + distance + 1 < count_; ++s) {
    Row measured = measure(s, s + distance, distance);
    measured.offset = cells;
    cells += measured.size();
    level.rows.push_back(measured);
  }
  level.cell_count = cells;
  return cells * (distance + 1);
}

uint64_t RotorTable::measure_suffixes(uint32_t window) {
  suffixes_.rows.resize(count_);
  uint64_t updates = 0;
  for (uint32_t s = count_; s-- > 0;) {
    const uint32_t longest_sweep = std::min(window, count_ - 1 - s);
    Row& each = suffixes_.rows[s];
    each = measure(s, count_ - 1, longest_sweep);
    each.offset = suffixes_.cell_count;
    suffixes_.cell_count += each.size();
    updates += each.size() * (longest_sweep + 1);
  }
  return updates;
}

bool RotorTable::widen(uint32_t window, uint64_t max_bytes, uint64_t max_updates) {
  const auto before = static_cast<uint32_t>(levels_.size());
  Level suffixes_before = std::exchange(suffixes_, {});
  uint64_t updates = 0;
  for (uint32_t distance = before; distance < window; ++distance)
    updates += measure_level(distance);
  updates += measure_suffixes(window);
  if (size_bytes() > max_bytes || updates > max_updates) {
    levels_.resize(before);
    suffixes_ = std::move(suffixes_before);
    return false;
  }
  suffixes_before = {};
  window_ = window;
  for (uint32_t distance = before; distance < window; ++distance) {
    Level& level = levels_[distance];
    level.cells.assign(level.cell_count, kNeverNs);
    for (uint32_t s = 0; s < level.rows.size(); ++s) fill(level, s, s + distance, distance);
  }
  suffixes_.cells.assign(suffixes_.cell_count, kNeverNs);
  for (uint32_t s = count_; s-- > 0;)
    fill(suffixes_, s, count_ - 1, std::min(window, count_ - 1 - s));
  return true;
}

RotorTable::View RotorTable::view(uint32_t s, uint32_t t) const {
  const Level& level = t + 1 == count_ ? suffixes_ : levels_[t - s];
  const Row& found = level.rows[s];
  return {level.cells.data() + found.offset, found.first, found.last};
}

void RotorTable::fill(Level& level, uint32_t s, uint32_t t, uint32_t longest_sweep) {
  const Row filled = level.rows[s];
  if (filled.is_empty()) return;
  float* const cells = level.cells.data() + filled.offset;
  const auto tail = [](View part, uint64_t from) {
    return Tail{part.cells + (std::min<uint64_t>(from, part.last) - part.first),
                part.last - std::min<uint64_t>(from, part.last)};
  };
  for (const OptionSlots& option : options_of(s)) {
    uint32_t from = save_slots(option, t);
    if (s < t) from = std::max(from, saturated(option.kept + row(s + 1, t).first));
    if (from > filled.last) continue;
    float* const begin = cells + (from - filled.first);
    const uint64_t count = filled.last - from + 1;
    if (s == t) {
      relax(begin, count, option.extra_ns);
    } else {
      relax(begin, count, option.extra_ns, tail(view(s + 1, t), from - option.kept));
    }
  }
  uint32_t sweep = 0;
  float swept_ns = 0;
  for (uint32_t j = s; j < s + longest_sweep; ++j) {
    sweep = std::max(sweep, sweep_slots(s, j));
    swept_ns += stages_[j].forward_ns;
    const uint32_t output = stages_[j].output;
    const uint32_t from = std::max(
        {stages_[t].gradients + sweep, saturated(output + row(j + 1, t).first), row(s, j).first});
    if (from > filled.last) continue;
    // Rows never rise, so the cells that this sweep can improve come first.
    float* const begin = cells + (from - filled.first);
    float* const end = std::partition_point(begin, cells + filled.size(),
                                            [&](float added) { return added > swept_ns; });
    relax(begin, static_cast<uint64_t>(end - begin), swept_ns, tail(view(j + 1, t), from - output),
          tail(view(s, j), from));
  }
}

float RotorTable::added_ns(uint32_t s, uint32_t t, uint64_t slots) const {
  const View part = view(s, t);
  if (part.first > part.last || slots < part.first) return kNeverNs;
  return part.cells[std::min<uint64_t>(slots, part.last) - part.first];
}

uint64_t RotorTable::size_bytes() const {
  uint64_t cells = suffixes_.cell_count;
  uint64_t rows = suffixes_.rows.size();
  for (const Level& level : levels_) {
    cells += level.cell_count;
    rows += level.rows.size();
  }
  return cells * sizeof(float) + rows * sizeof(Row);
}

}  // namespace vram::plan
