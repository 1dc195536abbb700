// GrowthGroup: the survivors of one site (or several that are one leak) and the verdict from their
// births and deaths. Part of growth.cpp; growth.hpp has the rules.
#pragma once

#include "base/pod_vector.hpp"
#include "explain/history/history.hpp"
#include "explain/report.hpp"
#include "explain/site/site.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

// Survivors: blocks that outlive their step by a whole step: the input of growth. All others,
// nearly every block of a training run, belong to one step or to two consecutive ones.

inline constexpr uint32_t kOutlivedEnds = 3;  // its own step's end and two more

// Alive at the ends of steps [birth, death). death == the number of steps: alive at the last end.
struct Survivor {
  uint32_t lifetime = 0;
  uint32_t birth = 0;
  uint32_t death = 0;
  uint32_t site = 0;
  uint64_t bytes = 0;
  bool from_setup = false;  // there before the first step began
  bool is_private = false;  // of a CUDA graph's pool or a MemPool, or of an unknown pool
};

// The common property of survivors: a frame, or a size on a stream.
struct SurvivorSite {
  trace::FrameId frame = 0;  // 0: by size
  uint64_t size_bytes = 0;
  trace::StreamId stream = 0;
};

struct Survivors {
  PodVector<Survivor> blocks;  // grouped by site
  std::vector<SurvivorSite> sites;
};

[[nodiscard]] Survivors find_survivors(const History& history, const std::vector<Step>& steps,
                                       UserFrames* frames);

// The examined steps: [warmup, steps).
struct GrowthWindow {
  uint32_t warmup = 0;
  uint32_t steps = 0;
};

struct GrowthGroup {
  std::vector<Survivor> blocks;
  std::vector<uint32_t> births;  // different steady steps of blocks alive at the end, ascending
  uint64_t born_bytes = 0;       // born in steady steps
  uint64_t alive_bytes = 0;      // ... and alive at the end
  uint64_t private_bytes = 0;    // ... of a private pool
  std::vector<uint32_t> early_births;  // different warm-up steps, likewise
  uint64_t early_bytes = 0;            // born in warm-up steps (not before) and alive at the end
  double log_ratio = 0;                // lasting_log_ratio() of the births
};

// Fills everything but log_ratio from `blocks`.
void count_births(const GrowthWindow& w, GrowthGroup* g);

// Whether there are enough births for a test.
[[nodiscard]] bool is_testable(const GrowthGroup& g);
// lasting_log_ratio() over the steps in which a survivor can be born, the steady ones or all,
// whichever is less: a warm-up may hide the steps in which a cache filled fastest.
[[nodiscard]] double log_ratio_of(const GrowthWindow& w, const GrowthGroup& g);
// fading_probability() over the steady ones.
[[nodiscard]] double fading_of(const GrowthWindow& w, const GrowthGroup& g);
// Do its blocks stay, outside of private pools?
[[nodiscard]] bool survives(const GrowthGroup& g);
// Bytes a step: Theil–Sen over live bytes at the ends of the steady steps.
[[nodiscard]] double slope_of(const GrowthWindow& w, const GrowthGroup& g);

// Births: the statistics of growth. In some steps of a recording, a site allocates blocks that are
// never freed ("births"). A leak does so at a lasting rate; a cache less and less often, the fuller
// it is; a warm-up ends. Plain functions of step numbers: `births` are distinct, increasing steps
// below `length`. Nothing here depends on memory.

// The log-likelihood ratio of a lasting rate against a cache that fills, each with its best
// parameters.
//   - A lasting rate: the same probability in each step, or every k-th step, with occasional
//     deviations of a step.
//   - A cache: a probability proportional to the missing entries, of which at least kFullCache
//     are present at the end (the coupon collector's problem).
// Only the former explains births in every step of a short recording; random births in some of the
// steps need many steps to be distinguished from a cache. 0 without births.
inline constexpr double kFullCache = 0.95;
[[nodiscard]] double lasting_log_ratio(std::span<const uint32_t> births, uint32_t length);

// If the births came in random order: the probability that the last third of the steps has so few
// of them or, if that is smaller, that so many steps follow the last one. Exact (hypergeometric). 1
// without births.
[[nodiscard]] double fading_probability(std::span<const uint32_t> births, uint32_t length);

// Which of `tests` sites to believe, of which these have the largest ratios: the more sites were
// tested, the larger a ratio has to be. The Benjamini–Hochberg procedure for likelihood ratios
// (e-BH, Wang & Ramdas 2022), by which at most `false_share` of those believed are expected to be
// wrong, however the sites depend on each other. That is proven for ratios whose parameters are
// given; those of lasting_log_ratio() are fitted on both sides, and growth_test.cpp shows how
// often it errs.
[[nodiscard]] std::vector<bool> discoveries(std::span<const double> log_ratios, size_t tests,
                                            double false_share);

}  // namespace vram::explain
