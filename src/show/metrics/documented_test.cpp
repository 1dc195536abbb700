// docs/metrics.md has every metric that is published, with its type, unit, labels and help, and no
// other.
#include "base/testing/paths.hpp"
#include "show/metrics/metrics.hpp"
#include "show/testing/full_snapshot.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
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

using Labels = std::set<std::string>;

Labels labels_of(const metrics::Family& family) {
  static const std::regex kName("(?:^|,)([a-z_]+)=\"");
  Labels names;
  for (const metrics::Series& series : family.series) {
    for (std::sregex_iterator match(series.labels.begin(), series.labels.end(), kName), end;
         match != end; ++match)
      names.insert((*match)[1]);
  }
  return names;
}

std::string type_of(const metrics::Family& family) {
  const metrics::Kind kind = family.metric.kind;
  std::string type = kind == metrics::Kind::kCounter ? "counter"
                     : kind == metrics::Kind::kInfo  ? "info"
                                                     : "gauge";
  if (const auto unit = unit_of(family.metric); !unit.empty()) type += ", " + std::string(unit);
  return type;
}

struct DocumentedRow {
  std::string type;
  Labels labels;
  std::string help;
};

// By name.
std::map<std::string, DocumentedRow> documented_metrics() {
  static const std::regex kRow(R"(\| `(vram_\w+)` \| ([^|]*) \| ([^|]*) ?\| (.*) \|)");
  static const std::regex kLabel("`(\\w+)`");
  std::map<std::string, DocumentedRow> rows;
  for (const std::string& row : documented_rows("vram_")) {
    std::smatch match;
    if (!std::regex_match(row, match, kRow)) continue;  // others explain
    DocumentedRow& documented = rows[match[1]];
    documented.type = match[2];
    documented.help = match[4];
    const std::string labels = match[3];
    for (std::sregex_iterator label(labels.begin(), labels.end(), kLabel), end; label != end;
         ++label)
      documented.labels.insert((*label)[1]);
  }
  return rows;
}

TEST(MetricsDocumented, EveryMetricHasItsRow) {
  std::map<std::string, DocumentedRow> rows = documented_metrics();
  const auto families =
      metrics_of(testing::full_sampled(), testing::full_figures(), {.process_series = 9});
  for (const metrics::Family& family : families.all()) {
    const auto row = rows.extract(std::string(family.metric.name));
    ASSERT_FALSE(row.empty()) << "docs/metrics.md lacks " << family.metric.name;
    EXPECT_EQ(row.mapped().type, type_of(family)) << family.metric.name;
    EXPECT_EQ(row.mapped().help, family.metric.help);
    Labels unused = row.mapped().labels;
    for (const std::string& label : labels_of(family))
      EXPECT_EQ(unused.erase(label), 1U) << family.metric.name << ": " << label;
    // Of processes on MIG instances alone, which have not all figures here.
    unused.erase("gi");
    unused.erase("ci");
    EXPECT_EQ(unused, Labels()) << family.metric.name;
  }
  for (const auto& [name, row] : rows) ADD_FAILURE() << "is documented and not published: " << name;
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
