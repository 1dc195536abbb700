// Families: the metrics of a page as values: a family has a name, a help text and series; a series
// has labels and a number. Unknown values are not added, and no two series of a family have the
// same labels, whatever drivers or processes report.
//
//     snapshot_metrics, metrics_of() ──▶ Families ──▶ exposition (text in either format)
//
// Plain values; not thread-safe.
#pragma once

#include "watch/figures/figure.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace vram::show::metrics {

using watch::figures::Kind;

// The constant properties of a family. Its texts live as long as the program.
struct Metric {
  std::string_view name;  // the full name: a counter's with _total, an info's with _info
  Kind kind = Kind::kGauge;
  std::string_view help;  // with its source; no quotes, backslashes or ends of line
};

// The base unit at the end of the name (before _total): "bytes", "seconds"; "" without one.
[[nodiscard]] std::string_view unit_of(const Metric& metric);

// Labels as in both formats: uuid="GPU-0",xid="79". Values are made printable, escaped and bounded
// in length; an empty one is left out, which is equivalent for Prometheus.
class Labels {
 public:
  [[nodiscard]] Labels with(std::string_view name, std::string_view value) const;
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

using Number = std::variant<uint64_t, int64_t, double>;

struct Series {
  std::string labels;
  Number value;
};

struct Family {
  Metric metric;
  std::vector<Series> series;
};

class Families {
 public:
  void add(const Metric& metric, const Labels& labels, Number value);
  template <typename T>
  void add(const Metric& metric, const Labels& labels, const std::optional<T>& value) {
    if (value) add(metric, labels, Number(*value));
  }

  // In the order in which families were first added to; none is empty.
  [[nodiscard]] const std::vector<Family>& all() const { return families_; }
  [[nodiscard]] uint64_t series_count() const { return seen_.size(); }

 private:
  std::vector<Family> families_;
  std::unordered_map<std::string_view, size_t> places_;  // by name
  std::set<std::pair<size_t, std::string>> seen_;        // family and labels
};

// Families as text, in the two formats that Prometheus reads. Pure functions.

// Text format 0.0.4.
[[nodiscard]] std::string prometheus_text(const Families& families);
// OpenMetrics 1.0.
[[nodiscard]] std::string openmetrics_text(const Families& families);

}  // namespace vram::show::metrics
