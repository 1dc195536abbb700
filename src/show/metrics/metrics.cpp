#include "show/metrics/metrics.hpp"

#include "base/text.hpp"
#include "show/metrics/families.hpp"
#include "show/metrics/snapshot_metrics.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

namespace vram::show {
namespace {

using metrics::Families;
using metrics::Labels;
using metrics::Number;
using metrics::seconds_of;
using enum watch::figures::Kind;

// Sources begin their notes with their names: "nvml: …".
std::string source_of(const std::string& note) { return note.substr(0, note.find(':')); }

// What the program reports about itself and its samples.
void add_samples(const watch::Sampled& sampled, const ExporterFigures& figures,
                 Families& families) {
  const Labels none;
  if (sampled.number > 0) {
    families.add({"vram_exporter_samples_total", kCounter, "Samples of the machine so far."}, none,
                 Number(sampled.number));
    families.add(
        {"vram_exporter_sample_duration_seconds", kGauge, "How long the last sample took."}, none,
        Number(seconds_of(sampled.sample_duration_ns)));
  }
  if (sampled.period_ns > 0)
    families.add({"vram_exporter_sample_period_seconds", kGauge,
                  "From the start of the sample before the last to the start of the last."},
                 none, Number(seconds_of(sampled.period_ns)));
  if (sampled.snapshot.time_ns > 0) {  // else there is no sample yet
    families.add(
        {"vram_exporter_sample_timestamp_seconds", kGauge,
         "When the last sample of the machine was taken, since 1970; time() less this is the age "
         "of the figures."},
        none, Number(seconds_of(static_cast<uint64_t>(sampled.snapshot.time_ns))));
    families.add({"vram_exporter_devices", kGauge, "GPUs that were found, whatever their state."},
                 none, Number(uint64_t{sampled.snapshot.devices.size()}));
  }
  if (figures.overdue_ns)
    families.add({"vram_exporter_sample_overdue_seconds", kGauge,
                  "How much longer than the period the current sample takes: a driver hangs."},
                 none, Number(seconds_of(*figures.overdue_ns)));
}

void add_sources(const watch::Snapshot& snapshot, const ExporterFigures& figures,
                 Families& families) {
  std::set<std::string> failing;
  for (const std::string& note : snapshot.notes) failing.insert(source_of(note));
  for (const std::string& source : failing)
    families.add({"vram_exporter_source_failing", kGauge,
                  "1: this source of figures could not be read in the last sample."},
                 Labels().with("source", source), Number(uint64_t{1}));
  for (const SourceFailures& source : figures.failures)
    families.add({"vram_exporter_source_failures_total", kCounter,
                  "Samples in which this source of figures could not be read."},
                 Labels().with("source", source.source), Number(source.failures));
}

// Last: it counts the series of the page.
void add_exporter(const watch::Sampled& sampled, const ExporterFigures& figures,
                  Families& families) {
  const Labels none;
  add_samples(sampled, figures, families);
  add_sources(sampled.snapshot, figures, families);
  families.add({"vram_exporter_scrapes_total", kCounter, "Pages of metrics sent."}, none,
               figures.scrapes);
  families.add({"vram_exporter_resident_memory_bytes", kGauge,
                "Memory of the host that this program takes: /proc/self/statm."},
               none, figures.resident_bytes);
  families.add({"vram_build_info", kInfo, "The program that publishes this page."},
               none.with("version", figures.version), Number(uint64_t{1}));
  families.add({"vram_exporter_series", kGauge, "Series on this page, this one with them."}, none,
               Number(families.series_count() + 1));
}

}  // namespace

void count_failures(const watch::Snapshot& snapshot, ExporterFigures& figures) {
  for (const std::string& note : snapshot.notes) {
    const std::string source = source_of(note);
    auto known = std::ranges::find(figures.failures, source, &SourceFailures::source);
    if (known == figures.failures.end()) known = figures.failures.insert(known, {source, 0});
    ++known->failures;
  }
}

metrics::Families metrics_of(const watch::Sampled& sampled, const ExporterFigures& figures,
                             const MetricsOptions& options) {
  const watch::Snapshot& snapshot = sampled.snapshot;
  metrics::Families families;
  const std::vector<metrics::Labels> devices = metrics::device_labels(snapshot);
  for (size_t place = 0; place < devices.size(); ++place) {
    metrics::add_device(snapshot.devices[place], devices[place], families);
    metrics::add_mig(snapshot.devices[place], devices[place], families);
  }
  metrics::add_sums(snapshot, devices, families);
  if (const uint32_t limit = options.process_series.value_or(0); limit > 0)
    metrics::add_processes(snapshot, devices, limit, families);
  if (options.dcgm_names) metrics::add_dcgm(snapshot, families);
  add_exporter(sampled, figures, families);
  return families;
}

std::string metrics_text(const watch::Sampled& sampled, const ExporterFigures& figures,
                         const MetricsOptions& options) {
  const metrics::Families families = metrics_of(sampled, figures, options);
  return options.format == MetricsFormat::kOpenMetrics ? metrics::openmetrics_text(families)
                                                       : metrics::prometheus_text(families);
}

namespace {

// What is before the mark; `text` becomes what is after it.
std::string_view next_part(std::string_view& text, char mark) {
  const size_t end = text.find(mark);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? "" : text.substr(end + 1);
  return trimmed(part, " \t");
}

bool is_word(std::string_view text, std::string_view word) {
  return std::ranges::equal(
      text, word, [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

double weight_of(std::string_view text) {
  double weight = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, weight);
  const bool is_weight = error == std::errc{} && stop == end && weight >= 0 && weight <= 1;
  return is_weight ? weight : 0;
}

// One of the header's kinds of answers: "text/plain;version=0.0.4;q=0.5".
struct Wanted {
  std::string_view type;
  std::string_view version;
  double weight = 1;
};

Wanted wanted_of(std::string_view text) {
  Wanted wanted;
  wanted.type = next_part(text, ';');
  while (!text.empty()) {
    std::string_view value = next_part(text, ';');
    const std::string_view name = next_part(value, '=');
    if (is_word(name, "q")) wanted.weight = weight_of(value);
    if (is_word(name, "version")) wanted.version = value;
  }
  return wanted;
}

bool takes_openmetrics(const Wanted& wanted) {
  return is_word(wanted.type, "application/openmetrics-text") &&
         (wanted.version.empty() || wanted.version == "1.0.0" || wanted.version == "\"1.0.0\"");
}

bool takes_text(const Wanted& wanted) {
  return is_word(wanted.type, "text/plain") || is_word(wanted.type, "text/*") ||
         is_word(wanted.type, "*/*");
}

}  // namespace

std::string_view content_type(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

MetricsFormat negotiate(std::string_view accept_header) {
  double openmetrics = 0;
  double text = 0;
  while (!accept_header.empty()) {
    const Wanted wanted = wanted_of(next_part(accept_header, ','));
    if (takes_openmetrics(wanted)) openmetrics = std::max(openmetrics, wanted.weight);
    if (takes_text(wanted)) text = std::max(text, wanted.weight);
  }
  return openmetrics > 0 && openmetrics >= text ? MetricsFormat::kOpenMetrics
                                                : MetricsFormat::kPrometheus;
}

}  // namespace vram::show
