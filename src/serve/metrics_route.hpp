// /metrics: the page of the last look, made at most once a look and format, however many ask.
// Before there has been one, what the server says of itself: that the first look is overdue.
#pragma once

#include "serve/api.hpp"
#include "serve/tally.hpp"

#include <memory>

namespace vram::serve {

// The format of the options is the client's to choose.
[[nodiscard]] Route metrics_route(const SampleFeed& feed, std::shared_ptr<Tally> tally,
                                  show::MetricsOptions options);

}  // namespace vram::serve
