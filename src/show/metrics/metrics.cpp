#include "show/metrics/metrics.hpp"

#include "show/metrics/exposition.hpp"
#include "show/metrics/parts.hpp"

namespace vram::show {

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
  metrics::add_exporter(sampled, figures, families);
  return families;
}

std::string metrics_text(const watch::Sampled& sampled, const ExporterFigures& figures,
                         const MetricsOptions& options) {
  const metrics::Families families = metrics_of(sampled, figures, options);
  return options.format == MetricsFormat::kOpenMetrics ? metrics::openmetrics_text(families)
                                                       : metrics::prometheus_text(families);
}

}  // namespace vram::show
