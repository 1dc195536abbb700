// Sites: the live memory of a recording by where it was allocated, at the moments that profiles
// show. Internal to exports/; pure.
#pragma once

#include "explain/report.hpp"
#include "reports/recording.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vram::exports {

// The largest number of a profile, and the smallest, where a sum exceeds it.
[[nodiscard]] constexpr int64_t limited_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return b < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

// Requested bytes, and blocks.
struct Amount {
  int64_t bytes = 0;
  int64_t count = 0;
};

// Blocks with the same stack and the same labels.
struct Site {
  trace::StackId stack = 0;
  // "device", "holder", "scope", "category", "stream", "pool", where known.
  std::vector<std::pair<std::string, std::string>> labels;
  std::string holder;  // as in the breakdown by user frame
  std::string scope;   // the path; empty outside all scopes
  Amount peak;         // of requested bytes
  Amount end;          // after the last event
  Amount growth;       // the difference between two moments
};

// The moments of growth: after the first and the last steady step; or, if there are fewer than two,
// before the first event and after the last.
struct GrowthSpan {
  int64_t begin_event = explain::kBeforeFirstEvent;
  int64_t end_event = explain::kBeforeFirstEvent;
  std::string text;  // "from the end of step:3 to the end of step:20", as --at numbers them
};

struct DeviceSites {
  std::string name;  // "GPU 0"
  GrowthSpan growth;
  std::vector<Site> sites;  // those with an amount at any of the moments; the largest peak first
};

// One for each device. Linear in the blocks.
[[nodiscard]] std::vector<DeviceSites> find_sites(const reports::Recording& recording);

// The frames of a site, innermost first. One without a stack has its holder, and around it the
// scopes of its path.
[[nodiscard]] std::vector<explain::Frame> frames_of(const trace::Tables& tables, const Site& site);

}  // namespace vram::exports
