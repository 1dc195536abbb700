// docs/metrics.md has every metric that is published, with its type, unit, labels and help, and no
// other.
#include "base/testing/paths.hpp"
#include "show/metrics/metrics.hpp"
#include "show/testing/full_snapshot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace vram::show {
namespace {

std::vector<std::string> documented_rows(const std::string& prefix) {
  std::ifstream file(source_path("docs/metrics.md"));
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `" + prefix)) rows.push_back(line);
  }
  return rows;
}

std::string labels_of(const metrics::Family& family) {
  static const std::regex kName("(?:^|,)([a-z_]+)=\"");
  std::vector<std::string> names;
  for (const metrics::Series& series : family.series) {
    for (std::sregex_iterator match(series.labels.begin(), series.labels.end(), kName), end;
         match != end; ++match) {
      if (std::ranges::find(names, (*match)[1].str()) == names.end())
        names.push_back((*match)[1].str());
    }
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "`" : " `") + name + "`";
  return text;
}

std::string row_of(const metrics::Family& family) {
  const metrics::Kind kind = family.metric.kind;
  std::string type = kind == metrics::Kind::kCounter ? "counter"
                     : kind == metrics::Kind::kInfo  ? "info"
                                                     : "gauge";
  if (const auto unit = unit_of(family.metric); !unit.empty()) type += ", " + std::string(unit);
  return fmt::format("| `{}` | {} | {} | {} |", family.metric.name, type, labels_of(family),
                     family.metric.help);
}

TEST(MetricsDocumented, EveryMetricHasItsRow) {
  std::set<std::string> rows;
  for (const std::string& row : documented_rows("vram_")) {
    if (std::ranges::count(row, '|') >= 5) rows.insert(row);  // others explain
  }
  const auto families =
      metrics_of(testing::full_sampled(), testing::full_figures(), {.process_series = 9});
  for (const metrics::Family& family : families.all()) {
    const std::string row = row_of(family);
    EXPECT_EQ(rows.erase(row), 1U) << "docs/metrics.md lacks\n" << row;
  }
  for (const std::string& row : rows) ADD_FAILURE() << "is documented and not published:\n" << row;
}

TEST(MetricsDocumented, EveryNameOfDcgmHasItsRow) {
  std::set<std::string> documented;
  static const std::regex kName("DCGM_FI_\\w+");
  for (const std::string& row : documented_rows("DCGM_FI_")) {
    for (std::sregex_iterator match(row.begin(), row.end(), kName), end; match != end; ++match)
      documented.insert(match->str());
  }
  std::set<std::string> published;
  const auto families =
      metrics_of(testing::full_sampled(), testing::full_figures(), {.dcgm_names = true});
  for (const metrics::Family& family : families.all()) {
    if (family.metric.name.starts_with("DCGM_")) published.emplace(family.metric.name);
  }
  EXPECT_EQ(published, documented);
}

}  // namespace
}  // namespace vram::show
