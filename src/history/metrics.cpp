#include "history/metrics.hpp"

#include "watch/figures/figure.hpp"

#include <algorithm>
#include <array>
#include <variant>

namespace vram::history {
namespace {

namespace figures = watch::figures;

constexpr int64_t kMaxInteger = int64_t{1} << 53;

// By the number of the unit.
constexpr std::array<std::string_view, 10> kUnitNames = {"",
                                                         "",
                                                         "processes",
                                                         "bytes",
                                                         "bytes per second",
                                                         "percent",
                                                         "degrees Celsius",
                                                         "milliwatts",
                                                         "megahertz",
                                                         "nanoseconds"};

std::optional<int64_t> storable_number(const figures::Value& value) {
  if (const auto* count = std::get_if<uint64_t>(&value)) return storable(std::optional(*count));
  const auto* number = std::get_if<int64_t>(&value);
  if (number == nullptr || *number > kMaxInteger || *number < -kMaxInteger) return std::nullopt;
  return *number;
}

// The rows of the table that the history keeps, by number.
template <typename T>
std::vector<const figures::Figure<T>*> kept_figures() {
  std::vector<const figures::Figure<T>*> kept;
  for (const figures::Figure<T>& row : figures::figures_of<T>()) {
    if (row.history.number > 0) kept.push_back(&row);
  }
  std::ranges::sort(kept, {}, [](const auto* row) { return row->history.number; });
  return kept;
}

template <typename T>
std::vector<MetricValue> known_values(const T& object) {
  static const auto kRows = kept_figures<T>();
  std::vector<MetricValue> values;
  values.reserve(kRows.size());
  for (const auto* row : kRows) {
    if (const auto value = storable_number(row->value(object)))
      values.push_back({row->history.number, *value});
  }
  return values;
}

std::vector<Metric> device_metrics() {
  std::vector<Metric> metrics;
  for (const auto* row : kept_figures<watch::Device>()) {
    const std::string_view name = row->history.name.empty() ? row->key : row->history.name;
    metrics.push_back({row->history.number, name, kUnitNames.at(static_cast<size_t>(row->unit))});
  }
  return metrics;
}

}  // namespace

std::span<const Metric> metrics() {
  static const std::vector<Metric> kMetrics = device_metrics();
  return kMetrics;
}

std::optional<Metric> find_metric(std::string_view name) {
  const auto found = std::ranges::find(metrics(), name, &Metric::name);
  if (found == metrics().end()) return std::nullopt;
  return *found;
}

std::optional<int64_t> storable(std::optional<uint64_t> value) {
  if (!value || *value > static_cast<uint64_t>(kMaxInteger)) return std::nullopt;
  return static_cast<int64_t>(*value);
}

std::vector<MetricValue> values_of(const watch::Device& device) { return known_values(device); }

std::vector<MetricValue> values_of(const gpu::MigInstance& instance) {
  return known_values(instance);
}

}  // namespace vram::history
