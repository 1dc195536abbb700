// BlocksFixture: an empty arena and its live blocks on a small simulated GPU, for tests of the
// parts that place, find and end blocks.
#pragma once

#include "pool/arena.hpp"
#include "pool/blocks.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

namespace vram::pool {

class BlocksFixture : public testing::Test {
 protected:
  static constexpr Address kHome = 64 * kMiB;

  BlocksFixture() { arena_.add(kHome, 8 * kMiB, Lane::kLarge); }

  gpu::SimGpu gpu_{device_of(64 * kMiB)};
  Device device_{gpu_, 0};
  Stock stock_{gpu_, 0, Backing::kVirtual};
  Stitches stitches_{device_, stock_};
  Arena arena_;
  Stats stats_;
  Blocks blocks_{arena_, stitches_, stats_};
};

}  // namespace vram::pool
