// The server's own counters for its metrics. May be used from any thread.
#pragma once

#include "show/metrics/metrics.hpp"
#include "watch/sampler.hpp"

#include <cstdint>
#include <mutex>

namespace vram::serve {

class Tally {
 public:
  void count_sample(const watch::Sampled& sampled);
  void count_scrape();
  [[nodiscard]] show::ExporterFigures figures(uint64_t overdue_ns) const;

 private:
  mutable std::mutex mutex_;  // guards the figures
  show::ExporterFigures figures_{.version = VRAM_VERSION, .scrapes = 0};
};

}  // namespace vram::serve
