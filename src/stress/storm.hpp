// The second pressure: storms of allocations and frees of every size through the pool, in several
// streams, near the limit; each block's ends are marked and looked at when it is freed, and the
// pool's own account is checked again and again.
//
//     random size, stream ──▶ SharedPool ──▶ mark both ends ──▶ … ──▶ compare both ends ──▶ free
//
// The same seed gives the same requests. One thread.
#pragma once

#include "stress/budget.hpp"
#include "stress/card.hpp"
#include "stress/report.hpp"

#include <cstdint>
#include <vector>

namespace vram::stress {

struct StormOptions {
  uint64_t leave_bytes = 0;
  uint64_t seed = 0;
};

struct Storm {
  StormReport report;
  std::vector<Figure> figures;  // what the pool's calls took, and how well it used its memory
};

// A request that finds no memory is counted, not an error. All that was taken has been given back.
[[nodiscard]] Storm run_storm(Card& card, const StormOptions& options, const Budget& budget,
                              const Progress& progress, Ledger& ledger);

}  // namespace vram::stress
