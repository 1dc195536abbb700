// The pool on a device that can't map: memory in segments.
#include "base/bytes.hpp"
#include "pool/pool.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vram::pool {
namespace {

class SegmentsTest : public PoolOnSimGpu<Pool> {
 protected:
  SegmentsTest() : PoolOnSimGpu(64 * kMiB, {.backing = Backing::kSegments}) {}
  void TearDown() override { check(); }
  void check() {
    ASSERT_NO_FATAL_FAILURE(expect_valid(pool_, gpu_));
    ASSERT_EQ(gpu_.used_bytes(0), pool_.stats().reserved_bytes.current);
  }
  uint64_t mapping_calls() {
    return gpu_.stats()[gpu::Call::kCreate].count + gpu_.stats()[gpu::Call::kMap].count +
           gpu_.stats()[gpu::Call::kReserve].count;
  }
};

TEST_F(SegmentsTest, RequestsShareASegmentAndMapNothing) {
  const Allocation first = pool_.allocate(3 * kMiB, 0);
  const Allocation second = pool_.allocate(5 * kMiB, 0);
  EXPECT_NE(first.address, 0u);
  EXPECT_NE(second.address, 0u);
  EXPECT_EQ(pool_.stats().num_device_alloc, 1u);
  EXPECT_EQ(mapping_calls(), 0u);
  pool_.free(first.block);
  EXPECT_EQ(pool_.allocate(3 * kMiB, 0).address, first.address);
}

TEST_F(SegmentsTest, SegmentsThatAreTooSmallMakeRoom) {
  std::vector<Allocation> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(pool_.allocate(20 * kMiB, 0));
  for (const Allocation& block : blocks) pool_.free(block.block);
  EXPECT_NE(pool_.allocate(50 * kMiB, 0).address, 0u);
  EXPECT_EQ(pool_.stats().num_alloc_retries, 1u);
  EXPECT_EQ(pool_.stats().num_device_free, 3u);
}

TEST_F(SegmentsTest, RandomProgramsKeepWhatMustHold) {
  std::mt19937_64 random(7);
  std::vector<BlockId> live;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 100 < 52) {
      const uint64_t size = uint64_t{512} << random() % 14;
      const Allocation got = pool_.allocate(size + random() % size, random() % 3 * 64);
      if (got.address != 0) live.push_back(got.block);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      pool_.free(live.back());
      live.pop_back();
    }
    if (i % 5000 == 0) (void)pool_.trim(8 * kMiB);
    if (i % 1000 != 0) continue;
    ASSERT_NO_FATAL_FAILURE(check());
  }
  EXPECT_EQ(mapping_calls(), 0u);
  for (const BlockId block : live) pool_.free(block);
  ASSERT_EQ(pool_.wait(), Status::kOk);
  (void)pool_.trim(UINT64_MAX);
  EXPECT_EQ(gpu_.used_bytes(0), 0u);
}

}  // namespace
}  // namespace vram::pool
