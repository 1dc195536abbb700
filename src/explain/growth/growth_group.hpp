// GrowthGroup: the blocks of one site (or several that are one leak) that outlive a step, and the
// facts from which growth.cpp judges them. Part of growth.cpp; growth.hpp has the rules.
#pragma once

#include "base/pod_vector.hpp"
#include "explain/growth/trend.hpp"
#include "explain/history/history.hpp"
#include "explain/report.hpp"
#include "explain/site/site.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <vector>

namespace vram::explain {

// Nearly every block of a training run is freed in the step that allocated it. Holdovers are alive
// at the end of a step or more: they are what the live bytes at step ends consist of. Survivors are
// those that also outlive the next two ends: gradients and prefetched batches do not.

inline constexpr uint32_t kOutlivedEnds = 3;  // its own step's end and two more

// Alive at the ends of steps [birth, death). death == the number of steps: alive at the last end.
struct Holdover {
  uint32_t lifetime = 0;
  uint32_t birth = 0;
  uint32_t death = 0;
  uint32_t site = 0;
  uint64_t bytes = 0;
  // Its position: the number of allocations in its step before it, and from it on.
  uint32_t from_begin = 0;
  uint32_t to_end = 0;
  bool from_setup = false;  // there before the first step began
  bool is_private = false;  // of a CUDA graph's pool or a MemPool, or perhaps of one

  [[nodiscard]] bool survives(uint32_t ends = kOutlivedEnds) const { return death - birth >= ends; }
};

// The common property of blocks: a frame, or a size on a stream.
struct GrowthSite {
  trace::FrameId frame = 0;  // 0: by size
  uint64_t size_bytes = 0;
  trace::StreamId stream = 0;
};

struct Holdovers {
  PodVector<Holdover> blocks;  // grouped by site
  std::vector<GrowthSite> sites;
};

[[nodiscard]] Holdovers find_holdovers(const History& history, const std::vector<Step>& steps,
                                       UserFrames* frames);

// The examined steps: [warmup, steps).
struct GrowthWindow {
  uint32_t warmup = 0;
  uint32_t steps = 0;
};

struct GrowthGroup {
  std::vector<Holdover> blocks;
  uint32_t outlived = kOutlivedEnds;  // what its survivors outlive; more where others stay long
  std::vector<uint32_t> births;  // different steady steps of survivors alive at the end, ascending
  uint64_t born_bytes = 0;       // survivors born in steady steps
  uint64_t alive_bytes = 0;      // ... and alive at the end
  uint64_t private_bytes = 0;    // ... of a private pool
  std::vector<uint32_t> early_births;  // different warm-up steps, likewise
  uint64_t early_bytes = 0;            // born in warm-up steps (not before) and alive at the end
  size_t holdover_steps = 0;           // different steady steps in which a holdover was born
  double log_ratio = 0;                // lasting_log_ratio() of the births
  Trend trend;                         // of live bytes at the ends of the steady steps
  trace::FrameId lead_frame = 0;       // by which it is named, if it is several sites of frames
  size_t other_sites = 0;              // of frames that lead_frame does not contain
};

// Fills the facts from `blocks` and `outlived`: all but log_ratio, trend and the names.
// A step with twice as many births as others, some of them at its edge, and the step beyond that
// edge with none count as one birth each: the boundary between them moved, not the allocation.
void count_births(const GrowthWindow& w, GrowthGroup* g);
// Leaves only the survivors in `blocks`.
void drop_brief(GrowthGroup* g);

// Whether there are enough births for a leak.
[[nodiscard]] bool is_testable(const GrowthGroup& g);
// The Mann–Kendall test of live bytes at the ends of the steady steps, all holdovers counted.
[[nodiscard]] Trend trend_of(const GrowthWindow& w, const GrowthGroup& g);
// lasting_log_ratio() from the first birth on over the steps in which a survivor can be born, the
// steady ones or all, whichever is less: a warm-up may hide the steps in which a cache filled
// fastest.
[[nodiscard]] double log_ratio_of(const GrowthWindow& w, const GrowthGroup& g);
// fading_probability() over the steady ones.
[[nodiscard]] double fading_of(const GrowthWindow& w, const GrowthGroup& g);
// overdue_births() over the steady ones, with those at the end, of which is unknown whether they
// survive.
[[nodiscard]] uint32_t overdue_of(const GrowthWindow& w, const GrowthGroup& g);
// Do its survivors stay, outside of private pools?
[[nodiscard]] bool survives(const GrowthGroup& g);
// Bytes a step: Theil–Sen over the survivors' live bytes at the ends of the steady steps, from the
// first birth on.
[[nodiscard]] Slope slope_of(const GrowthWindow& w, const GrowthGroup& g);
// Bytes a step of a leak: the Theil–Sen slope of the number of its blocks, times their mean size.
// Blocks of changing sizes then count in full, as the median of slopes in bytes does not: of a few
// steps it follows those that most have. 0 if no block of a steady step is alive at the end.
[[nodiscard]] double rate_of(const GrowthWindow& w, const GrowthGroup& g);

}  // namespace vram::explain
