// The pages under tests/data/metrics were read line by line before they became the expectation.
#include "show/metrics/metrics.hpp"

#include "base/testing/paths.hpp"
#include "show/testing/parsed_metrics.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace vram::show {
namespace {

using testing::full_figures;
using testing::full_sampled;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::PageReader;
using testing::ParsedPage;

constexpr auto kOpenMetrics = MetricsFormat::kOpenMetrics;

std::string expected_page(const std::string& name) {
  std::ifstream file(data_path("metrics/") + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string page_of(const watch::Snapshot& snapshot, MetricsOptions options = {}) {
  watch::Sampled sampled;
  sampled.snapshot = snapshot;
  return metrics_text(sampled, {}, options);
}

ParsedPage parsed(const watch::Snapshot& snapshot, MetricsOptions options = {}) {
  return PageReader(options.format == kOpenMetrics).read(page_of(snapshot, options));
}

TEST(Metrics, LookAsExpected) {
  const auto text = [](MetricsOptions options) {
    return metrics_text(full_sampled(), full_figures(), options);
  };
  EXPECT_EQ(text({.process_series = 3}), expected_page("full.prom"));
  EXPECT_EQ(text({.format = kOpenMetrics, .process_series = 3}), expected_page("full.openmetrics"));
  EXPECT_EQ(text({.dcgm_names = true}), expected_page("dcgm.prom"));
  EXPECT_EQ(text({.format = kOpenMetrics, .dcgm_names = true}), expected_page("dcgm.openmetrics"));
}

TEST(Metrics, BothFormatsHaveTheSameSeries) {
  for (const bool dcgm : {false, true}) {
    const watch::Snapshot snapshot = full_sampled().snapshot;
    const ParsedPage text = parsed(snapshot, {.dcgm_names = dcgm, .process_series = 9});
    const ParsedPage open =
        parsed(snapshot, {.format = kOpenMetrics, .dcgm_names = dcgm, .process_series = 9});
    EXPECT_EQ(text.series, open.series);
    EXPECT_GT(text.series.size(), 100U);
  }
}

TEST(Metrics, ARateStandsInOnlyWhereNoCounterIs) {
  watch::Snapshot snapshot;
  snapshot.devices.resize(1);
  snapshot.devices[0].identity.uuid = "GPU-0";
  snapshot.devices[0].sample.pcie_sent_bytes = 70;
  snapshot.devices[0].pcie_sent_bytes_per_second = 7;
  snapshot.devices[0].pcie_received_bytes_per_second = 5;
  snapshot.devices[0].sample.memory_bandwidth_percent = 73;
  const auto series = parsed(snapshot).series;
  EXPECT_EQ(series.at("vram_gpu_pcie_sent_bytes_total{uuid=\"GPU-0\"}"), 70);
  EXPECT_FALSE(series.contains("vram_gpu_pcie_sent_bytes_per_second{uuid=\"GPU-0\"}"));
  EXPECT_EQ(series.at("vram_gpu_pcie_received_bytes_per_second{uuid=\"GPU-0\"}"), 5);
  EXPECT_FALSE(series.contains("vram_gpu_nvlink_sent_bytes_per_second{uuid=\"GPU-0\"}"));
  EXPECT_EQ(series.at("vram_gpu_memory_bandwidth_ratio{uuid=\"GPU-0\"}"), 0.73);
}

TEST(Metrics, FiguresAreInBaseUnits) {
  const auto series = parsed(full_sampled().snapshot, {.process_series = 9}).series;
  const std::string uuid = "{uuid=\"GPU-1b5fa1a2-0000-4000-8000-000000000000\"}";
  EXPECT_EQ(series.at("vram_gpu_memory_total_bytes" + uuid), 141.0 * kGiB);
  EXPECT_EQ(series.at("vram_gpu_utilization_ratio" + uuid), 0.91);
  EXPECT_EQ(series.at("vram_gpu_power_watts" + uuid), 612.3);
  EXPECT_EQ(series.at("vram_gpu_core_clock_hertz" + uuid), 1.2e9);
  EXPECT_EQ(series.at("vram_process_step_seconds{pid=\"47110\"}"), 0.3125);
  EXPECT_EQ(series.at("vram_gpu_memory_unattributed_bytes" + uuid), -2.0 * kGiB);
}

TEST(Metrics, UnknownIsAbsent) {
  const auto series = parsed(testing::unknown_snapshot(), {.process_series = 9}).series;
  for (const auto& [name, value] : series) {
    const bool is_known = name.starts_with("vram_exporter_") || name.starts_with("vram_build") ||
                          name.ends_with("_info{pid=\"4711\"}") ||
                          name.starts_with("vram_gpu_info") || name.starts_with("vram_gpu_up") ||
                          name.starts_with("vram_gpu_asleep");
    EXPECT_TRUE(is_known) << name;
  }
}

TEST(Metrics, BeforeTheFirstLookNothingIsSaidOfDevices) {
  EXPECT_EQ(metrics_text({}, {.version = "1.2"}, {}),
            "# HELP vram_build_info The program that publishes this page.\n"
            "# TYPE vram_build_info gauge\n"
            "vram_build_info{version=\"1.2\"} 1\n"
            "# HELP vram_exporter_series Series on this page, this one with them.\n"
            "# TYPE vram_exporter_series gauge\n"
            "vram_exporter_series 2\n");
}

TEST(Metrics, InstancesThatShareMemoryCountOnce) {
  const auto series = parsed(full_sampled().snapshot).series;
  double sum = 0;
  for (const auto& [name, value] : series) {
    if (name.starts_with("vram_gpu_mig_memory_used_bytes")) sum += value;
  }
  EXPECT_EQ(sum, 35.0 * kGiB);
}

TEST(Metrics, DevicesOfOneNameStayApart) {
  watch::Snapshot snapshot = testing::sample_snapshot();
  snapshot.devices[1].identity.uuid = snapshot.devices[0].identity.uuid;
  snapshot.devices[2].identity.uuid.reset();
  snapshot.devices[3].identity.uuid.reset();
  snapshot.devices[3].identity.pci_id.reset();
  const auto series = parsed(snapshot).series;
  EXPECT_EQ(series.count("vram_gpu_up{uuid=\"1#GPU-1b5fa1a2-0000-4000-8000-000000000000\"}"), 1U);
  EXPECT_EQ(series.count("vram_gpu_up{uuid=\"0000:1b:00.0\"}"), 1U);
  EXPECT_EQ(series.count("vram_gpu_up{uuid=\"device-3\"}"), 1U);
}

TEST(Metrics, OnlyTheLargestProcessesHaveSeries) {
  const watch::Snapshot snapshot = testing::sample_snapshot();  // 8 of 92 GiB, one of 20 + 21
  EXPECT_THAT(page_of(snapshot), Not(HasSubstr("vram_process_")));
  EXPECT_THAT(page_of(snapshot, {.process_series = 0}), Not(HasSubstr("vram_process_")));
  const auto series = parsed(snapshot, {.process_series = 2}).series;
  EXPECT_EQ(series.count("vram_process_info{pid=\"47110\",user=\"ann\",command=\"python\","
                         "slurm_job=\"88123\"}"),
            1U);
  const std::string uuid = "GPU-1b5fa1a2-0000-4000-8000-00000000000";
  const auto other = [&](int index) {
    return series.at("vram_gpu_other_process_memory_bytes{uuid=\"" + uuid + std::to_string(index) +
                     "\"}");
  };
  EXPECT_EQ(other(0), 0);
  EXPECT_EQ(other(1), 0);
  EXPECT_EQ(other(2), 92.0 * kGiB);
  EXPECT_EQ(other(7), (92.0 + 21) * kGiB);
}

TEST(Metrics, APodHasItsProcessesSum) {
  watch::Snapshot snapshot = testing::sample_snapshot();
  snapshot.processes[6].facts.edit().pod = snapshot.processes[8].facts->pod;  // both on device 6
  const std::string pod =
      "vram_pod_memory_used_bytes{uuid=\"GPU-1b5fa1a2-0000-4000-8000-000000000006\",namespace="
      "\"serving\",pod=\"triton-6f9d8-x2x4k\",pod_uid=\"7c1f\"}";
  EXPECT_EQ(parsed(snapshot).series.at(pod), (92.0 + 20) * kGiB);
  snapshot.processes[8].uses[0].process.used_bytes.reset();
  EXPECT_EQ(parsed(snapshot).series.count(pod), 0U);  // with one unknown, so is the sum
}

TEST(Metrics, DcgmNamesHaveItsUnitsAndLabels) {
  const auto series = parsed(full_sampled().snapshot, {.dcgm_names = true}).series;
  const std::string labels =
      "{gpu=\"0\",UUID=\"GPU-1b5fa1a2-0000-4000-8000-000000000000\",pci_bus_id=\"00000000:19:00."
      "0\","
      "device=\"nvidia0\",modelName=\"NVIDIA H200\",Hostname=\"node17\",hostname=\"node17\","
      "DCGM_FI_DRIVER_VERSION=\"590.48.01\"";
  EXPECT_EQ(series.at("DCGM_FI_DEV_FB_USED" + labels + "}"), 104.0 * 1024);
  EXPECT_EQ(series.at("DCGM_FI_DEV_GPU_UTIL" + labels + "}"), 91);
  EXPECT_EQ(series.at("DCGM_FI_DEV_SM_CLOCK" + labels + "}"), 1'200);
  EXPECT_EQ(series.at("DCGM_FI_DEV_XID_ERRORS" + labels + ",err_code=\"79\"}"), 79);
}

TEST(Metrics, FailuresAreCountedBySource) {
  ExporterFigures figures;
  watch::Snapshot snapshot;
  snapshot.notes = {"nvml: no driver", "drm: no permission"};
  count_failures(snapshot, figures);
  snapshot.notes.pop_back();
  count_failures(snapshot, figures);
  ASSERT_EQ(figures.failures.size(), 2U);
  EXPECT_EQ(figures.failures[0].failures, 2U);
  EXPECT_EQ(figures.failures[1].failures, 1U);
}

constexpr auto kText = MetricsFormat::kPrometheus;
constexpr auto kOpen = MetricsFormat::kOpenMetrics;

TEST(Negotiate, GivesWhatIsWantedMost) {
  EXPECT_EQ(negotiate(""), kText);
  EXPECT_EQ(negotiate("*/*"), kText);
  EXPECT_EQ(negotiate("text/html,application/xhtml+xml,*/*;q=0.8"), kText);
  EXPECT_EQ(negotiate("application/openmetrics-text"), kOpen);
  // As Prometheus 2.42 asks.
  EXPECT_EQ(negotiate("application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
                      "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
            kOpen);
  EXPECT_EQ(
      negotiate("Application/OpenMetrics-Text ; Version=\"1.0.0\" ; Q=0.6 , text/plain;q=0.5"),
      kOpen);
  EXPECT_EQ(negotiate("application/openmetrics-text;q=0.3,text/plain;q=0.5"), kText);
  EXPECT_EQ(negotiate("application/openmetrics-text;q=0"), kText);
}

TEST(Negotiate, VersionsThatWeDoNotWriteAreNotGiven) {
  EXPECT_EQ(negotiate("application/openmetrics-text;version=0.0.1"), kText);
  EXPECT_EQ(negotiate("application/openmetrics-text;version=2.0.0,text/plain;q=0.1"), kText);
}

TEST(Negotiate, AnythingMayBeAsked) {
  for (const char* const header :
       {",", ";;;", ",;=,", "application/openmetrics-text;q=nan",
        "application/openmetrics-text;q=2", "application/openmetrics-text;q=1e999",
        "application/openmetrics-text;q=", "\xff\x01;q=-1"})
    EXPECT_EQ(negotiate(header), kText) << header;
  EXPECT_EQ(negotiate(std::string(100'000, ',')), kText);
}

// A header that was damaged on the way is still only a wish, and never for what it does not name.
TEST(Negotiate, DamagedHeadersAskForNothingNew) {
  const std::string header =
      "application/openmetrics-text;version=1.0.0;q=0.7,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
  std::mt19937 random(1);
  int open = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = header.substr(random() % 8 == 0 ? random() % header.size() : 0);
    for (auto n = random() % 6; n > 0; --n)
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    if (negotiate(damaged) != kOpen) continue;
    ++open;
    std::string lower = damaged;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    EXPECT_NE(lower.find("application/openmetrics-text"), std::string::npos) << damaged;
  }
  EXPECT_GT(open, 1'000);
}

TEST(ContentType, NamesTheVersion) {
  EXPECT_EQ(content_type(kText), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(content_type(kOpen), "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

// docs/metrics.md has every metric that is published, with its type, unit, labels and help, and no
// other.
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
