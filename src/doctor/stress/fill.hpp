// The first pressure: all memory that is free but a margin, filled with patterns and read back.
//
//     Held ──▶ chunks ──▶ for each pattern: write all ──▶ read back a sample
//                    └──▶ again and again, while there is time: write all ──▶ read back all
//
// Patterns that repeat are written on the device itself (fills, or one chunk copied all over), the
// words' own addresses over the bus; comparing is the host's. One thread calls; lanes run inside.
#pragma once

#include "doctor/stress/budget.hpp"
#include "doctor/stress/card.hpp"
#include "doctor/stress/ledger.hpp"
#include "doctor/stress/report.hpp"

#include <cstdint>

namespace vram::doctor {

struct FillOptions {
  uint64_t leave_bytes = 0;
  uint64_t seed = 0;
};

// Running out of memory or of time is no error. All that was taken has been given back.
[[nodiscard]] FillReport run_fill(Card& card, const FillOptions& options, const Budget& budget,
                                  const Progress& progress, Ledger& ledger);

}  // namespace vram::doctor
