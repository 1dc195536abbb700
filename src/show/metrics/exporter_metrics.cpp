// What the program reports about itself and its samples. See parts.hpp.
#include "show/metrics/parts.hpp"

#include <algorithm>
#include <set>

namespace vram::show {
namespace {

// Sources begin their notes with their names: "nvml: …".
std::string source_of(const std::string& note) { return note.substr(0, note.find(':')); }

}  // namespace

void count_failures(const watch::Snapshot& snapshot, ExporterFigures& figures) {
  for (const std::string& note : snapshot.notes) {
    const std::string source = source_of(note);
    auto known = std::ranges::find(figures.failures, source, &SourceFailures::source);
    if (known == figures.failures.end()) known = figures.failures.insert(known, {source, 0});
    ++known->failures;
  }
}

namespace metrics {
namespace {

using enum watch::figures::Kind;

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

}  // namespace

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

}  // namespace metrics
}  // namespace vram::show
