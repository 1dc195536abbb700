// /metrics: the page of the last sample, made at most once for each sample and format. Before the
// first sample, it contains only the server's own metrics, such as an overdue first sample.
#pragma once

#include "serve/api.hpp"
#include "show/metrics/metrics.hpp"
#include "watch/sampler.hpp"

#include <cstdint>
#include <memory>
#include <mutex>

namespace vram::serve {

// The server's own counters for its metrics. May be used from any thread.

class Tally {
 public:
  void count_sample(const watch::Sampled& sampled);
  void count_scrape();
  [[nodiscard]] show::ExporterFigures figures(uint64_t overdue_ns) const;

 private:
  mutable std::mutex mutex_;  // guards the figures
  show::ExporterFigures figures_{.version = VRAM_VERSION, .scrapes = 0};
};

// The format of the options is the client's to choose.
[[nodiscard]] Route metrics_route(const SampleFeed& feed, std::shared_ptr<Tally> tally,
                                  show::MetricsOptions options);

}  // namespace vram::serve
