// The series that rows of the table of figures have. Pure functions.
#pragma once

#include "show/metrics/families.hpp"
#include "watch/figures/figure.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vram::show::metrics {

// The labels, and values under names that have spaces between them.
[[nodiscard]] Labels with_each(Labels labels, std::string_view names,
                               const std::vector<std::string>& values);

// Unknown above the limit.
[[nodiscard]] watch::figures::Value at_most(const watch::figures::Value& value,
                                            const std::optional<uint64_t>& limit);
[[nodiscard]] std::optional<uint64_t> number_in(const watch::figures::Value& value);
[[nodiscard]] std::optional<Number> in_base_unit(watch::figures::Unit unit,
                                                 const watch::figures::Value& value);

// The value of a figure, unless it is a number above its limit. Memory of a device is no more than
// the device has.
template <typename T>
[[nodiscard]] watch::figures::Value bounded(const watch::figures::Figure<T>& figure,
                                            const T& object,
                                            const std::optional<uint64_t>& device_bytes) {
  if (!figure.value) return {};
  const std::optional<uint64_t> most = figure.is_of_device ? device_bytes : std::nullopt;
  std::optional<uint64_t> limit;
  if (figure.limit) limit = number_in(at_most(figure.limit(object), most));
  return at_most(figure.value(object), limit ? limit : most);
}

// Adds the metrics of an object; `device_bytes` is the memory of the device that it is a part of.
template <typename T>
void add_figures(const T& object, const std::optional<uint64_t>& device_bytes, const Labels& labels,
                 Families& families) {
  static const auto kShown = watch::figures::arranged<T>(&watch::figures::Figure<T>::metric);
  for (const watch::figures::Figure<T>* figure : kShown) {
    const watch::figures::MetricCell<T>& cell = figure->metric;
    const Metric metric{cell.name, cell.kind, cell.help};
    if (cell.points != nullptr) {
      for (const watch::figures::Point& point : cell.points(object))
        families.add(metric, with_each(labels, cell.labels, point.labels),
                     in_base_unit(figure->unit, point.number));
    } else if (!cell.unless || !number_in(cell.unless(object))) {
      families.add(metric, with_each(labels, cell.labels, {std::string(cell.label_value)}),
                   in_base_unit(figure->unit, bounded(*figure, object, device_bytes)));
    }
  }
}

}  // namespace vram::show::metrics
