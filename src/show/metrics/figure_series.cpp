#include "show/metrics/figure_series.hpp"

#include <algorithm>

namespace vram::show::metrics {
namespace {

using watch::figures::Unit;
using watch::figures::Value;

constexpr uint64_t kWholePercent = 100;

std::optional<Number> count_in_base_unit(Unit unit, uint64_t count) {
  switch (unit) {
    case Unit::kPercent:
      if (count > kWholePercent) return std::nullopt;
      return static_cast<double>(count) / 100.0;
    case Unit::kMilliwatts:
      return static_cast<double>(count) / 1e3;
    case Unit::kMegahertz:
      return count * 1'000'000;
    case Unit::kNanoseconds:
      return static_cast<double>(count) / 1e9;
    default:
      return count;
  }
}

}  // namespace

Labels with_each(Labels labels, std::string_view names, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    const size_t end = std::min(names.find(' '), names.size());
    labels = labels.with(names.substr(0, end), value);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return labels;
}

std::optional<uint64_t> number_in(const Value& value) {
  const auto* number = std::get_if<uint64_t>(&value);
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

Value at_most(const Value& value, const std::optional<uint64_t>& limit) {
  const auto number = number_in(value);
  return number && limit && *number > *limit ? Value() : value;
}

std::optional<Number> in_base_unit(Unit unit, const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return uint64_t{*flag};
  if (const auto* difference = std::get_if<int64_t>(&value)) return *difference;
  if (const auto* ratio = std::get_if<double>(&value)) return *ratio;
  const auto count = number_in(value);
  return count ? count_in_base_unit(unit, *count) : std::nullopt;
}

}  // namespace vram::show::metrics
