// Placement: makes a block of free memory: where it was in the last step (recall.hpp), at the best
// fit, or of pieces that a stitch shows as one range. Uses only memory that the stream may use at
// once, and calls neither the device nor the driver. The hot path; one thread at a time.
#pragma once

#include "pool/arena.hpp"
#include "pool/blocks.hpp"
#include "pool/recall.hpp"
#include "pool/stitch_plan.hpp"
#include "pool/stitches.hpp"

namespace vram::pool {

class Placement {
 public:
  // All arguments must outlive this.
  Placement(Arena& arena, Stitches& stitches, Blocks& blocks, Stats& stats)
      : arena_(arena), stitches_(stitches), blocks_(blocks), stats_(stats) {}

  // Where the request went the last time, if that is free.
  [[nodiscard]] Allocation place_again(Recall::Answer answer, const Wanted& wanted);
  // The best fit among the memory of its kind.
  [[nodiscard]] Allocation search(const Wanted& wanted);
  // The best fit among the memory of large blocks, then among that of small ones.
  [[nodiscard]] Allocation search_other_lanes(const Wanted& wanted);
  // The beginning of that free node, which is large enough.
  [[nodiscard]] Allocation serve(NodeId free_node, const Wanted& wanted);
  // Through the plan's stitch, which is mapped and idle. The stream may use all of its pieces.
  [[nodiscard]] Allocation show(const StitchPlan& plan, const Wanted& wanted);

 private:
  [[nodiscard]] Allocation show_again(StitchId id, Address address, const Wanted& wanted);

  Arena& arena_;
  Stitches& stitches_;
  Blocks& blocks_;
  Stats& stats_;
};

}  // namespace vram::pool
