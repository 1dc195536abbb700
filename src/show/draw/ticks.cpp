#include "show/draw/ticks.hpp"

#include "base/bytes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

namespace vram::show {
namespace {

struct Unit {
  std::string_view name;
  double size;
};

std::string label_of(double value, const Unit& unit) {
  return fmt::format("{:.6g} {}", value / unit.size, unit.name);
}

Unit byte_unit(uint64_t largest_bytes) {
  static constexpr std::array kUnits = {Unit{"PiB", 0x1p50}, Unit{"TiB", 0x1p40},
                                        Unit{"GiB", 0x1p30}, Unit{"MiB", 0x1p20},
                                        Unit{"KiB", 0x1p10}};
  for (const Unit& unit : kUnits) {
    if (static_cast<double>(largest_bytes) >= unit.size) return unit;
  }
  return {"B", 1};
}

// The smallest round number not below `value`.
double round_up(double value, std::span<const double> mantissas) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  for (const double mantissa : mantissas) {
    if (mantissa * decade >= value * (1 - 1e-9)) return mantissa * decade;
  }
  return 10 * decade;
}

std::vector<Tick> ticks_up_to(double end, double step, const Unit& unit) {
  std::vector<Tick> ticks;
  for (double value = 0; value <= end * (1 + 1e-9); value += step) {
    ticks.push_back({static_cast<uint64_t>(std::llround(value)), label_of(value, unit)});
  }
  return ticks;
}

Unit time_unit(double step_ns) {
  static constexpr std::array kUnits = {Unit{"h", 3600e9}, Unit{"min", 60e9}, Unit{"s", 1e9},
                                        Unit{"ms", 1e6}, Unit{"us", 1e3}};
  // Half a second is a better label than 500 ms on an axis of seconds.
  for (const Unit& unit : kUnits) {
    if (step_ns >= unit.size * (unit.size == 1e9 ? 0.1 : 1)) return unit;
  }
  return {"ns", 1};
}

// Above half a minute the round steps are those of a clock.
double round_time_step(double step_ns) {
  static constexpr std::array kDecimal = {1.0, 2.0, 5.0, 10.0};
  static constexpr std::array kClockSeconds = {30,   60,   120,  300,   600,   900,
                                               1800, 3600, 7200, 21600, 43200, 86400};
  if (step_ns <= 20e9) return round_up(step_ns, kDecimal);
  for (const int seconds : kClockSeconds) {
    if (seconds * 1e9 >= step_ns) return seconds * 1e9;
  }
  return std::ceil(step_ns / 86400e9) * 86400e9;
}

}  // namespace

ByteAxis byte_axis(uint64_t largest_bytes, int max_rows) {
  static constexpr std::array kMantissas = {1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0};
  const uint64_t largest = std::max<uint64_t>(largest_bytes, 1);
  const Unit unit = byte_unit(largest);
  const double in_units = static_cast<double>(largest) / unit.size;
  ByteAxis best;
  double best_cost = 1e9;
  for (int count = 2; count <= 5; ++count) {
    const int rows_per_tick = std::max(max_rows, 4) / count;
    if (rows_per_tick == 0) continue;
    const double step = round_up(in_units / count, kMantissas);
    const double unused_rows = max_rows - rows_per_tick * count;
    const double cost = step * count / in_units - 1 + 0.03 * unused_rows;
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = {
        static_cast<uint64_t>(step * count * unit.size), rows_per_tick * count, rows_per_tick, {}};
    for (int i = 1; i <= count; ++i) {
      const double value = step * i * unit.size;
      best.ticks.push_back({static_cast<uint64_t>(value), label_of(value, unit)});
    }
  }
  return best;
}

std::vector<Tick> time_ticks(uint64_t end_ns, int max_ticks) {
  if (end_ns == 0) return {{0, "0 s"}};
  const auto end = static_cast<double>(end_ns);
  const double step = round_time_step(end / std::max(max_ticks - 1, 1));
  return ticks_up_to(end, step, time_unit(step));
}

std::vector<Tick> count_ticks(uint64_t end, int max_ticks) {
  static constexpr std::array kDecimal = {1.0, 2.0, 5.0, 10.0};
  const double step = std::max(
      1.0, round_up(static_cast<double>(end) / std::max(max_ticks - 1, 1) + 1e-9, kDecimal));
  std::vector<Tick> ticks;
  for (double value = 0; value <= static_cast<double>(end); value += step) {
    const auto count = static_cast<uint64_t>(std::llround(value));
    ticks.push_back({count, format_count(count)});
  }
  return ticks;
}

}  // namespace vram::show
