// The metrics page: one look at the machine as Prometheus and OpenMetrics read it. What each metric
// means is in docs/metrics.md, which a test holds to what is published here.
//
//     Sampled, ExporterFigures ──▶ metrics_of() ──▶ Families ──▶ metrics_text()
//
// Pure functions; any thread. A page is made anew each time: who serves many readers keeps the text
// of a look.
#pragma once

#include "show/metrics/families.hpp"
#include "watch/sampler.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

enum class MetricsFormat : uint8_t { kPrometheus, kOpenMetrics };

struct MetricsOptions {
  MetricsFormat format = MetricsFormat::kPrometheus;
  bool dcgm_names = false;  // dcgm-exporter's names beside ours
  // Series of the so many processes with the most memory; 0 or none: of no process.
  std::optional<uint32_t> process_series = std::nullopt;
};

struct SourceFailures {
  std::string source;  // "nvml"
  uint64_t failures = 0;
};

// What the program that publishes knows of itself. What is unknown is not published.
struct ExporterFigures {
  std::string version = {};
  std::vector<SourceFailures> failures = {};              // looks at which one was not to be asked
  std::optional<uint64_t> scrapes = std::nullopt;         // pages given out
  std::optional<uint64_t> overdue_ns = std::nullopt;      // Sampler::overdue_ns()
  std::optional<uint64_t> resident_bytes = std::nullopt;  // of the program's memory
};

// Adds a failure for each source that the snapshot has a note of: to be called once a look.
void count_failures(const watch::Snapshot& snapshot, ExporterFigures& figures);

[[nodiscard]] metrics::Families metrics_of(const watch::Sampled& sampled,
                                           const ExporterFigures& figures,
                                           const MetricsOptions& options);
[[nodiscard]] std::string metrics_text(const watch::Sampled& sampled,
                                       const ExporterFigures& figures,
                                       const MetricsOptions& options);

// For the head of the answer.
[[nodiscard]] std::string_view content_type(MetricsFormat format);
// What to answer to the request's Accept: OpenMetrics where the reader wants that at least as much.
// Anything may be in it.
[[nodiscard]] MetricsFormat negotiate(std::string_view accept_header);

}  // namespace vram::show
