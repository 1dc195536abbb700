#include "pictures/axis.hpp"

#include "base/bytes.hpp"
#include "show/draw/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace vram::pictures {
namespace {

struct TimeUnit {
  std::string_view name;
  double ns;
};

TimeUnit unit_of(double largest_ns) {
  constexpr std::array kUnits = {TimeUnit{"h", 3600e9}, TimeUnit{"min", 60e9}, TimeUnit{"s", 1e9},
                                 TimeUnit{"ms", 1e6}, TimeUnit{"us", 1e3}};
  // Seconds for all that takes some, and hours only for days.
  for (const TimeUnit& unit : kUnits)
    if (largest_ns >= unit.ns * (unit.ns > 1e9 ? 5 : 1)) return unit;
  return {"ns", 1};
}

// As many decimals as the step has.
std::string time_label(double value_ns, double step_ns, const TimeUnit& unit) {
  const double digits = -std::floor(std::log10(step_ns / unit.ns) + 1e-9);
  return fmt::format("{:.{}f} {}", value_ns / unit.ns,
                     static_cast<int>(std::clamp(digits, 0.0, 9.0)), unit.name);
}

// The distance of round values, from the ticks of an axis that is as long.
double round_step(const Window& window, int max_ticks) {
  const auto length = static_cast<uint64_t>(std::clamp(window.to - window.from, 1.0, 9e18));
  const auto ticks = window.axis == AxisKind::kTime ? show::time_ticks(length, max_ticks)
                                                    : show::count_ticks(length, max_ticks);
  return ticks.size() < 2 ? static_cast<double>(length) : static_cast<double>(ticks[1].value);
}

}  // namespace

std::vector<AxisTick> axis_ticks(const Window& window, int max_ticks) {
  const double step = std::max(1.0, round_step(window, max_ticks));
  const TimeUnit unit = unit_of(window.to);
  std::vector<AxisTick> ticks;
  const double first = std::ceil(window.from / step - 1e-9) + 0.0;  // 0 and not -0
  for (double i = first; i * step <= window.to * (1 + 1e-12); ++i) {
    const double value = i * step;
    ticks.push_back({value, window.axis == AxisKind::kTime
                                ? time_label(value, step, unit)
                                : format_count(static_cast<uint64_t>(value))});
  }
  return ticks;
}

std::vector<AxisTick> byte_ticks(double largest, int max_ticks) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  constexpr std::array kMantissas = {1.0, 2.0, 5.0, 10.0};
  size_t unit = 0;
  double size = 1;
  for (; unit + 1 < kUnits.size() && largest >= size * 1024; ++unit) size *= 1024;
  const double least = largest / size / max_ticks;
  const double decade = std::pow(10, std::floor(std::log10(least)));
  double step = decade;
  for (const double mantissa : kMantissas) {
    step = mantissa * decade;
    if (step >= least) break;
  }
  std::vector<AxisTick> ticks;
  for (int i = 1; i * step * size <= largest; ++i)
    ticks.push_back({i * step * size, fmt::format("{:.6g} {}", i * step, kUnits.at(unit))});
  return ticks;
}

}  // namespace vram::pictures
