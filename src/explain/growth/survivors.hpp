// Survivors: blocks that outlive their step by a whole step: the input of growth. All others,
// nearly every block of a training run, belong to one step or to two consecutive ones.
#pragma once

#include "base/pod_vector.hpp"
#include "explain/history/history.hpp"
#include "explain/report.hpp"
#include "explain/site/site.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <vector>

namespace vram::explain {

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

}  // namespace vram::explain
