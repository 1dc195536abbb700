#include "show/metrics/families.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>

namespace vram::show::metrics {
namespace {

// A process chooses its own name. Characters that take no column are bounded by the bytes.
constexpr int kMaxColumns = 128;
constexpr size_t kMaxBytes = 512;
constexpr std::string_view kTotal = "_total";

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : shorten_end(printable(value.substr(0, kMaxBytes)), kMaxColumns)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string_view unit_of(const Metric& metric) {
  static constexpr std::array<std::string_view, 6> kUnits{"bytes",   "seconds", "ratio",
                                                          "celsius", "watts",   "hertz"};
  std::string_view name = metric.name;
  if (name.ends_with(kTotal)) name.remove_suffix(kTotal.size());
  name.remove_prefix(name.rfind('_') + 1);
  return std::ranges::find(kUnits, name) != kUnits.end() ? name : "";
}

Labels Labels::with(std::string_view name, std::string_view value) const {
  Labels labels = *this;
  if (value.empty()) return labels;
  if (!labels.text_.empty()) labels.text_ += ',';
  labels.text_.append(name).append("=\"").append(escaped(value)).append("\"");
  return labels;
}

void Families::add(const Metric& metric, const Labels& labels, Number value) {
  const auto [entry, is_new] = places_.try_emplace(metric.name, families_.size());
  if (is_new) families_.push_back({metric, {}});
  if (!seen_.emplace(entry->second, labels.text()).second) return;
  families_[entry->second].series.push_back({labels.text(), value});
}

}  // namespace vram::show::metrics
