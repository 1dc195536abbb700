// The driver fails: each call in turn, and at random. The pool answers with a refusal or serves
// from what it has; its state stays valid, and nothing is left on the device when it is gone.
#include "base/bytes.hpp"
#include "pool/pool.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vram::pool {
namespace {

// Growth, stitches, patches, two streams and trimming, within 48 MiB.
void use(Pool& pool, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<BlockId> live;
  for (int i = 0; i < 400; ++i) {
    if (random() % 100 < 55) {
      const Allocation got = pool.allocate(1 + random() % (6 * kMiB), random() % 2);
      if (got.address != 0) live.push_back(got.block);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      pool.free(live.back());
      live.pop_back();
    }
    if (i % 100 == 99) (void)pool.trim(8 * kMiB);
  }
  for (const BlockId block : live) pool.free(block);
}

gpu::SimOptions small_device() { return device_of(48 * kMiB); }

TEST(PoolFaultsTest, EachCallInTurn) {
  for (const Status status : {Status::kOutOfMemory, Status::kInvalidValue}) {
    uint64_t calls = 1;
    for (uint64_t nth = 1; nth <= calls; ++nth) {
      SCOPED_TRACE(nth);
      gpu::SimGpu gpu(small_device());
      Device device(gpu, 0);
      {
        gpu.faults().fail_nth(nth, status);
        Pool pool(device, {.handle_bytes = 4 * kMiB});
        use(pool, 1);
        ASSERT_NO_FATAL_FAILURE(expect_valid(pool, gpu));
        if (nth == 1) calls = 2000;
        calls = std::min<uint64_t>(calls, gpu.stats().count() + 1);
      }
      ASSERT_EQ(gpu.used_bytes(0), 0u);
    }
    EXPECT_GT(calls, 100u);
  }
}

TEST(PoolFaultsTest, AtRandom) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    gpu::SimGpu gpu(small_device());
    Device device(gpu, 0);
    {
      Pool pool(device, {.handle_bytes = 4 * kMiB, .stitched_percent = 50});
      gpu.faults().fail_at_random(0.02 * static_cast<double>(seed % 10 + 1), seed,
                                  Status::kOutOfMemory);
      use(pool, seed);
      gpu.faults().clear();
      ASSERT_NO_FATAL_FAILURE(expect_valid(pool, gpu));
      use(pool, seed + 1);
      ASSERT_NO_FATAL_FAILURE(expect_valid(pool, gpu));
    }
    ASSERT_EQ(gpu.used_bytes(0), 0u);
  }
}

// After kFault the device answers nothing any more.
TEST(PoolFaultsTest, ADeviceThatDied) {
  gpu::SimGpu gpu(small_device());
  Device device(gpu, 0);
  Pool pool(device, {.handle_bytes = 4 * kMiB});
  const Allocation before = pool.allocate(3 * kMiB, 0);
  gpu.faults().fail_nth(1, Status::kFault);
  EXPECT_EQ(pool.allocate(20 * kMiB, 0).address, 0u);
  EXPECT_EQ(pool.trim(kGiB), 0u);
  pool.free(before.block);
  EXPECT_EQ(pool.allocate(3 * kMiB, 0).address, before.address) << "needs no driver";
  expect_valid(pool, gpu);
}

}  // namespace
}  // namespace vram::pool
