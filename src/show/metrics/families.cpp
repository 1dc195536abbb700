#include "show/metrics/families.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace vram::show::metrics {
namespace {

// A process chooses its own name. Characters that take no column are bounded by the bytes.
constexpr int kMaxColumns = 128;
constexpr size_t kMaxBytes = 512;
constexpr std::string_view kTotal = "_total";

// As the value of a label, in quotes.
std::string label_value(std::string_view value) {
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
  labels.text_.append(name).append("=\"").append(label_value(value)).append("\"");
  return labels;
}

void Families::add(const Metric& metric, const Labels& labels, Number value) {
  const auto [entry, is_new] = places_.try_emplace(metric.name, families_.size());
  if (is_new) families_.push_back({metric, {}});
  if (!seen_.emplace(entry->second, labels.text()).second) return;
  families_[entry->second].series.push_back({labels.text(), value});
}

namespace {

constexpr size_t kTypicalLineLength = 96;

void append_head(std::string& text, std::string_view what, std::string_view name,
                 std::string_view value) {
  fmt::format_to(std::back_inserter(text), "# {} {} {}\n", what, name, value);
}

void append_series(std::string& text, const Family& family) {
  for (const Series& series : family.series) {
    text += family.metric.name;
    if (!series.labels.empty()) text.append("{").append(series.labels).append("}");
    std::visit([&](auto number) { fmt::format_to(std::back_inserter(text), " {}\n", number); },
               series.value);
  }
}

std::string_view prometheus_type(Kind kind) {
  return kind == Kind::kCounter || kind == Kind::kForeignCounter ? "counter" : "gauge";
}

std::string_view openmetrics_type(Kind kind) {
  switch (kind) {
    case Kind::kGauge:
      return "gauge";
    case Kind::kCounter:
      return "counter";
    case Kind::kInfo:
      return "info";
    case Kind::kForeignCounter:
      break;
  }
  return "unknown";
}

// A family's name there lacks what its samples' names end in.
std::string_view openmetrics_name(const Metric& metric) {
  std::string_view name = metric.name;
  if (metric.kind == Kind::kCounter) name.remove_suffix(std::string_view("_total").size());
  if (metric.kind == Kind::kInfo) name.remove_suffix(std::string_view("_info").size());
  return name;
}

}  // namespace

std::string prometheus_text(const Families& families) {
  std::string text;
  text.reserve(families.series_count() * kTypicalLineLength);
  for (const Family& family : families.all()) {
    append_head(text, "HELP", family.metric.name, family.metric.help);
    append_head(text, "TYPE", family.metric.name, prometheus_type(family.metric.kind));
    append_series(text, family);
  }
  return text;
}

std::string openmetrics_text(const Families& families) {
  std::string text;
  text.reserve(families.series_count() * kTypicalLineLength);
  for (const Family& family : families.all()) {
    const std::string_view name = openmetrics_name(family.metric);
    append_head(text, "TYPE", name, openmetrics_type(family.metric.kind));
    if (const auto unit = unit_of(family.metric); !unit.empty())
      append_head(text, "UNIT", name, unit);
    append_head(text, "HELP", name, family.metric.help);
    append_series(text, family);
  }
  return text + "# EOF\n";
}

}  // namespace vram::show::metrics
