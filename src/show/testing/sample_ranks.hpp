// A comparison of two ranks made by hand: what tests of show/ draw.
#pragma once

#include "explain/ranks/ranks.hpp"
#include "show/testing/sample_report.hpp"

namespace vram::show::testing {

inline explain::RankReport sample_ranks() {
  explain::RankReport report;
  report.ranks = {{.rank = 0,
                   .host = "node1",
                   .path = "runs/run.rank0.vtrace",
                   .peak_requested_bytes = 10 * kSampleGiB,
                   .peak_reserved_bytes = 12 * kSampleGiB,
                   .headroom_bytes = 68 * kSampleGiB,
                   .steps = 2},
                  {.rank = 3,
                   .host = "node2",
                   .path = "runs/run.rank3.vtrace",
                   .device = 1,
                   .peak_requested_bytes = 20 * kSampleGiB,
                   .peak_reserved_bytes = 23 * kSampleGiB,
                   .headroom_bytes = 57 * kSampleGiB,
                   .steps = 2,
                   .ooms = 1}};
  report.world_size = 4;
  report.worst = 1;
  report.worst_by = explain::RankMeasure::kHeadroom;
  report.category = {"activation", 15 * kSampleGiB, 6 * kSampleGiB};
  report.site = {"layers.7.mlp · activation", 5 * kSampleGiB, 2 * kSampleGiB};
  report.step = {"step 1", 20 * kSampleGiB, 9 * kSampleGiB};
  report.steps = {{"step 0", {10 * kSampleGiB, 8 * kSampleGiB}, 0},
                  {"step 1", {9 * kSampleGiB, 20 * kSampleGiB}, 1}};
  return report;
}

}  // namespace vram::show::testing
