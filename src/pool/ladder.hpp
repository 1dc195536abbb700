// Ladder: what the pool does when no free block fits: each of these steps once, the cheapest first,
// until one succeeds:
//
//     settle    what other streams have finished with
//     collect   what the caller has borrowed
//     stitch    a range mapped earlier shows enough free memory
//     grow      new handles, while reserved stays near the peak of live bytes
//     stitch    free pieces mapped as one range, with new memory for what is missing
//     (a little more than that, then as much as there is, rather than wait: the work that is waited
//     for may itself wait for what this stream does next)
//     wait      for another stream, then for all of them
//
// Placement makes the block, Supply takes memory from the device, Returns settles; the ladder
// itself stitches and makes streams wait. One thread at a time.
#pragma once

#include "pool/arena.hpp"
#include "pool/device.hpp"
#include "pool/interface.hpp"
#include "pool/placement.hpp"
#include "pool/returns.hpp"
#include "pool/stitch_plan.hpp"
#include "pool/stitches.hpp"
#include "pool/stock.hpp"
#include "pool/supply.hpp"

#include <cstdint>
#include <vector>

namespace vram::pool {

class Ladder {
 public:
  // All arguments must outlive this.
  Ladder(Device& device, const Options& options, const Arena& arena, const Stock& stock,
         Stitches& stitches, Supply& supply, Placement& placement, Returns& returns, Stats& stats)
      : device_(device),
        options_(options),
        arena_(arena),
        stock_(stock),
        stitches_(stitches),
        supply_(supply),
        placement_(placement),
        returns_(returns),
        stats_(stats) {}

  // Address 0: all steps failed.
  [[nodiscard]] Allocation climb(const Wanted& wanted);
  // Called before anything costly: the caller may free blocks in it, and says whether it had any to
  // free.
  void on_shortage(bool (*answer)(void* caller), void* caller) { shortage_ = {answer, caller}; }

 private:
  struct Shortage {
    bool (*answer)(void* caller) = nullptr;
    void* caller = nullptr;
  };
  // How far a stitch may go for what it lacks.
  enum class Effort : uint8_t {
    kLittleMemory,  // grow beyond the allowance, by the patience
    kAllMemory,     // grow as far as the device lets it
    kWait,          // and use what other streams have freed
  };
  [[nodiscard]] Allocation collect(const Wanted& wanted);
  [[nodiscard]] Allocation reuse_stitch(const Wanted& wanted);
  [[nodiscard]] Allocation grow_cheaply(const Wanted& wanted);
  [[nodiscard]] Allocation stitch(const Wanted& wanted, Effort effort);
  [[nodiscard]] Allocation wait_for_stream(const Wanted& wanted);
  [[nodiscard]] Allocation wait_for_all_streams(const Wanted& wanted);

  [[nodiscard]] bool map(StitchPlan* plan);
  [[nodiscard]] Allocation use_plan(const StitchPlan& plan, const Wanted& wanted);
  [[nodiscard]] std::vector<StreamIndex> usable_streams(const Wanted& wanted, bool all) const;
  [[nodiscard]] bool stream_waits_for(const Wanted& wanted, NodeId node);

  Device& device_;
  const Options& options_;
  const Arena& arena_;
  const Stock& stock_;
  Stitches& stitches_;
  Supply& supply_;
  Placement& placement_;
  Returns& returns_;
  Stats& stats_;
  Shortage shortage_;
};

}  // namespace vram::pool
