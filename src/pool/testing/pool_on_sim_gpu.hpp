// PoolOnSimGpu: the fixture of tests with a pool (Pool or SharedPool) on one small simulated GPU.
#pragma once

#include "base/bytes.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "pool/arena.hpp"
#include "pool/blocks.hpp"
#include "pool/device.hpp"
#include "pool/interface.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace vram::pool {

// One device of that capacity.
inline gpu::SimOptions device_of(uint64_t capacity_bytes) {
  return {.devices = {gpu::SimDevice{.capacity_bytes = capacity_bytes}}};
}

// The pool and the GPU agree with themselves, whatever a test did to them.
template <typename AnyPool>
void expect_valid(AnyPool& pool, const gpu::SimGpu& gpu) {
  std::string why;
  ASSERT_TRUE(pool.validate(&why)) << why;
  ASSERT_TRUE(gpu.validate(&why)) << why;
}

inline constexpr uint64_t kSmallHandleBytes = 4 * kMiB;

template <typename AnyPool, typename Gpu = gpu::SimGpu>
class PoolOnSimGpu : public ::testing::Test {
 protected:
  explicit PoolOnSimGpu(uint64_t capacity_bytes = 64 * kMiB,
                        const Options& options = {.handle_bytes = kSmallHandleBytes})
      : gpu_(device_of(capacity_bytes)), device_(gpu_, 0), pool_(device_, options) {}
  void TearDown() override { expect_valid(pool_, gpu_); }

  Gpu gpu_;
  Device device_;
  AnyPool pool_;
};

// BlocksFixture: an empty arena and its live blocks on a small simulated GPU, for tests of the
// parts that place, find and end blocks.
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
