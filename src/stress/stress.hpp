// run_stress(): the memory test of one device.
//
//     figures (empty card) ──▶ fill (patterns over all that is free) ──▶ storm (through the pool)
//          └── meanwhile Lookout asks telemetry for what gets hot ──▶ StressReport
//
// Blocks for as long as the options say, or until stop; gives everything back in every case.
#pragma once

#include "stress/budget.hpp"
#include "stress/card.hpp"
#include "stress/report.hpp"
#include "stress/samples.hpp"

#include <atomic>
#include <cstdint>
#include <functional>

namespace vram::stress {

struct StressOptions {
  int64_t length_ns = 0;
  uint64_t leave_bytes = 0;
  uint64_t seed = 0;
  const std::atomic<bool>* stop = nullptr;  // may be null
  std::function<int64_t()> clock;           // any thread; nanoseconds that only grow
  Progress progress;                        // may be empty
  ReadDevice read_device;                   // may be empty: nothing is known of the device's health
};

// Of what is left to others: a fiftieth of the device, at least 512 MiB, at most half of what is
// free.
[[nodiscard]] uint64_t default_margin(uint64_t free_bytes, uint64_t total_bytes);

// What the report contains of the device's names, others and the time of day is the caller's.
[[nodiscard]] StressReport run_stress(Card& card, const StressOptions& options);

}  // namespace vram::stress
