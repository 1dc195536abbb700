// The metrics page: a sample in the formats of Prometheus and OpenMetrics. docs/metrics.md
// documents each metric, which a test checks.
//
//     Sampled, ExporterFigures ──▶ metrics_of() ──▶ Families ──▶ metrics_text()
//
// Pure functions; may be called from any thread. Each call makes a new page: with many readers,
// cache the text of a sample.
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
  bool dcgm_names = false;  // also use dcgm-exporter's names
  // The number of processes with series, by memory; 0 or nothing: none.
  std::optional<uint32_t> process_series = std::nullopt;
};

struct SourceFailures {
  std::string source;  // "nvml"
  uint64_t failures = 0;
};

// The exporter's figures about itself. Unknown ones are not published.
struct ExporterFigures {
  std::string version = {};
  std::vector<SourceFailures> failures = {};              // samples at which a source failed
  std::optional<uint64_t> scrapes = std::nullopt;         // pages sent
  std::optional<uint64_t> overdue_ns = std::nullopt;      // Sampler::overdue_ns()
  std::optional<uint64_t> resident_bytes = std::nullopt;  // of the program's memory
};

// Counts a failure for each source with a note in the snapshot; call it once for each sample.
void count_failures(const watch::Snapshot& snapshot, ExporterFigures& figures);

[[nodiscard]] metrics::Families metrics_of(const watch::Sampled& sampled,
                                           const ExporterFigures& figures,
                                           const MetricsOptions& options);
[[nodiscard]] std::string metrics_text(const watch::Sampled& sampled,
                                       const ExporterFigures& figures,
                                       const MetricsOptions& options);

// For the head of the answer.
[[nodiscard]] std::string_view content_type(MetricsFormat format);
// Selects the format for an Accept header: OpenMetrics if the client prefers it at least equally.
// The header may contain anything.
[[nodiscard]] MetricsFormat negotiate(std::string_view accept_header);

}  // namespace vram::show
