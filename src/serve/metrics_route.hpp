// /metrics: the page of the last sample, made at most once for each sample and format. Before the
// first sample, it contains only the server's own metrics, such as an overdue first sample.
#pragma once

#include "serve/api.hpp"
#include "serve/tally.hpp"

#include <memory>

namespace vram::serve {

// The format of the options is the client's to choose.
[[nodiscard]] Route metrics_route(const SampleFeed& feed, std::shared_ptr<Tally> tally,
                                  show::MetricsOptions options);

}  // namespace vram::serve
