// The pool's promises one by one, on a small simulated GPU, with handles of 4 MiB.
#include "pool/pool.hpp"

#include "base/bytes.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vram::pool {
namespace {

class PoolTest : public PoolOnSimGpu<Pool> {
 protected:
  uint64_t driver_calls() { return gpu_.stats().count(); }
};

TEST_F(PoolTest, WhatWasFreedServesItsStreamWithoutTheDriver) {
  const Allocation first = pool_.allocate(3 * kMiB, 0);
  pool_.free(first.block);
  const uint64_t calls = driver_calls();
  EXPECT_EQ(pool_.allocate(3 * kMiB, 0).address, first.address);
  EXPECT_EQ(driver_calls(), calls);
  EXPECT_EQ(pool_.stats().slow_requests, 1u);
}

// Sixteen blocks of 4 MiB fill the device; every second is freed. A request of 16 MiB finds no
// place of that size, and is shown four of them.
TEST_F(PoolTest, AFullDeviceServesFromScatteredPieces) {
  std::vector<Allocation> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(pool_.allocate(4 * kMiB, 0));
  for (size_t i = 0; i < 16; i += 2) pool_.free(blocks[i].block);
  EXPECT_EQ(pool_.largest_free_bytes(), 4 * kMiB);
  const Allocation large = pool_.allocate(16 * kMiB, 0);
  ASSERT_NE(large.address, 0u);
  EXPECT_EQ(pool_.stats().stitches, 1u);
  EXPECT_EQ(pool_.stats().num_alloc_retries, 0u);
  EXPECT_EQ(gpu_.used_bytes(0), 64 * kMiB);
  pool_.free(large.block);
  const uint64_t calls = driver_calls();
  EXPECT_EQ(pool_.allocate(16 * kMiB, 0).address, large.address);
  EXPECT_EQ(driver_calls(), calls) << "it is mapped already";
}

TEST_F(PoolTest, AnotherStreamGetsMemoryWhenTheWorkIsDoneWithoutWaiting) {
  const Allocation block = pool_.allocate(60 * kMiB, 1);
  (void)pool_.allocate(512, 2);  // two streams from here on
  ASSERT_EQ(gpu_.enqueue(0, 1, 5'000'000), Status::kOk);
  pool_.free(block.block);
  EXPECT_NE(pool_.allocate(30 * kMiB, 2).address, 0u);
  EXPECT_EQ(pool_.stats().stream_waits, 1u) << "the last resort before waiting for the device";
  gpu_.advance(10'000'000);
  EXPECT_NE(pool_.allocate(20 * kMiB, 2).address, 0u);
  EXPECT_EQ(pool_.stats().stream_waits, 1u);
  EXPECT_EQ(gpu_.stats()[gpu::Call::kSynchronize].count, 0u);
}

TEST_F(PoolTest, HeldBlocksAreWaitedForBeforeAnOom) {
  const Allocation block = pool_.allocate(60 * kMiB, 0);
  pool_.hold(block.block);
  EXPECT_EQ(pool_.stats().allocated_bytes.current, 0u);
  EXPECT_EQ(pool_.stats().active_bytes.current, 60 * kMiB);
  EXPECT_NE(pool_.allocate(40 * kMiB, 0).address, 0u);
  EXPECT_EQ(pool_.stats().num_alloc_retries, 1u);
  pool_.finish(block.block);  // long finished: nothing happens
  EXPECT_EQ(pool_.stats().active_bytes.current, 40 * kMiB);
}

TEST_F(PoolTest, AnOomSaysWhatThereWas) {
  (void)pool_.allocate(40 * kMiB, 0);
  pool_.free(pool_.allocate(4 * kMiB, 0).block);
  EXPECT_EQ(pool_.allocate(100 * kMiB, 0).address, 0u);
  const OomFacts& facts = pool_.last_oom();
  EXPECT_EQ(facts.requested_bytes, 100 * kMiB);
  EXPECT_EQ(facts.reserved_bytes, gpu_.used_bytes(0));
  EXPECT_EQ(facts.free_bytes, gpu_.used_bytes(0) - 40 * kMiB);
  EXPECT_EQ(facts.device_total_bytes, 64 * kMiB);
  EXPECT_EQ(facts.holders[0].size_bytes, 40 * kMiB);
  EXPECT_EQ(facts.holders[0].count, 1u);
  EXPECT_EQ(facts.holders[1].count, 0u) << "what is freed holds nothing";
  EXPECT_EQ(pool_.stats().num_ooms, 1u);
}

TEST_F(PoolTest, AnOomNamesNoHoldersIfNobodyWantsThem) {
  Pool pool(device_, {.handle_bytes = kSmallHandleBytes, .finds_holders = false});
  (void)pool.allocate(40 * kMiB, 0);
  EXPECT_EQ(pool.allocate(100 * kMiB, 0).address, 0u);
  EXPECT_EQ(pool.last_oom().requested_bytes, 100 * kMiB);
  EXPECT_EQ(pool.last_oom().holders[0].count, 0u);
}

TEST_F(PoolTest, TheLimitHoldsAndLeavesTheRestUsable) {
  pool_.limit(16 * kMiB);
  EXPECT_EQ(pool_.allocate(17 * kMiB, 0).address, 0u);
  EXPECT_NE(pool_.allocate(16 * kMiB, 0).address, 0u);
  EXPECT_EQ(gpu_.used_bytes(0), 16 * kMiB);
}

TEST_F(PoolTest, TrimGivesBackWholeHandlesThatNothingUses) {
  const Allocation block = pool_.allocate(20 * kMiB, 0);
  (void)pool_.allocate(5 * kMiB, 0);
  pool_.free(block.block);
  const uint64_t before = gpu_.used_bytes(0);
  EXPECT_EQ(pool_.trim(4 * kMiB), 4 * kMiB);
  EXPECT_GE(pool_.trim(kGiB), 12 * kMiB);
  EXPECT_LT(gpu_.used_bytes(0), before - 12 * kMiB);
  EXPECT_NE(pool_.allocate(40 * kMiB, 0).address, 0u) << "and takes it again";
}

TEST_F(PoolTest, TrimLeavesAloneWhatAStreamStillUses) {
  const Allocation block = pool_.allocate(20 * kMiB, 3);
  ASSERT_EQ(gpu_.enqueue(0, 3, 1'000'000), Status::kOk);
  pool_.free(block.block);
  EXPECT_EQ(pool_.trim(kGiB), 0u);
  gpu_.advance(1'000'000);
  EXPECT_EQ(pool_.trim(kGiB), 20 * kMiB);
  EXPECT_EQ(gpu_.used_bytes(0), 0u);
}

// A step of a hundred layers: activations of four sizes pile up with temporaries between them, two
// large gradients come at the peak, everything goes in the order it came. Room is tight.
void train_step(Pool& pool) {
  std::vector<BlockId> activations;
  for (uint64_t layer = 0; layer < 100; ++layer) {
    const BlockId before = pool.allocate((1 + layer % 3) * 1'700'000, 0).block;
    activations.push_back(pool.allocate((1 + layer % 4) * 1'300'000, 0).block);
    pool.free(before);
  }
  const BlockId large = pool.allocate(90 * kMiB, 0).block;
  for (size_t i = 0; i < 50; ++i) pool.free(activations[i]);
  const BlockId second = pool.allocate(120 * kMiB, 0).block;
  pool.free(large);
  for (size_t i = 50; i < 100; ++i) pool.free(activations[i]);
  pool.free(second);
}

TEST(PoolFixedShapesTest, AfterAFewStepsTheDriverIsNotCalled) {
  gpu::SimGpu gpu;
  Device device(gpu, 0);
  Pool pool(device);
  std::vector<Allocation> weights;
  for (uint64_t i = 0; i < 40; ++i) weights.push_back(pool.allocate((i % 7 + 1) * 900'000, 0));
  for (size_t i = 0; i < 40; i += 3) pool.free(weights[i].block);
  for (int step = 0; step < 5; ++step) train_step(pool);
  EXPECT_GT(pool.stats().stitches, 0u) << "the test no longer tests it";
  const uint64_t calls = gpu.stats().count();
  for (int step = 0; step < 20; ++step) train_step(pool);
  EXPECT_EQ(gpu.stats().count(), calls);
  EXPECT_TRUE(pool.validate());
}

// 3 MiB take a handle of 4, of which the second 3 MiB use the rest: 2 MiB more suffice.
TEST_F(PoolTest, SmallBlocksDoNotPartLargeOnesFromWhatComesNext) {
  const Allocation first = pool_.allocate(3 * kMiB, 0);
  (void)pool_.allocate(512, 0);
  EXPECT_EQ(pool_.stats().reserved_bytes.current, (4 + 2) * kMiB);
  const Allocation second = pool_.allocate(3 * kMiB, 0);
  EXPECT_EQ(second.address, first.address + 3 * kMiB);
  EXPECT_EQ(pool_.stats().reserved_bytes.current, (4 + 2 + 2) * kMiB);
}

// A quarter of what is missing, from 20 to 40 MiB; where there is little room, 8 MiB as ever.
TEST(PoolGrowthTest, WhatIsWantedAsOneComesInLargerHandles) {
  gpu::SimGpu gpu;
  Device device(gpu, 0);
  Pool pool(device);
  (void)pool.allocate(60 * kMiB, 0);
  EXPECT_EQ(pool.stats().num_device_alloc, 3u) << "of 20 MiB";
  (void)pool.allocate(120 * kMiB, 0);
  EXPECT_EQ(pool.stats().num_device_alloc, 3u + 4u) << "of 30 MiB";
  (void)pool.allocate(200 * kMiB, 0);
  EXPECT_EQ(pool.stats().num_device_alloc, 7u + 5u) << "of 40 MiB";
  pool.limit(8 * kGiB);
  (void)pool.allocate(200 * kMiB, 0);
  EXPECT_EQ(pool.stats().num_device_alloc, 12u + 25u) << "of 8 MiB";
}

TEST(PoolStartTest, WithoutADeviceEverythingIsRefused) {
  gpu::SimGpu gpu;
  Device device(gpu, 0);
  gpu.faults().fail_nth(2, Status::kOutOfMemory);
  Pool pool(device);
  EXPECT_EQ(pool.allocate(512, 0).address, 0u);
  EXPECT_EQ(pool.trim(1), 0u);
  EXPECT_TRUE(pool.validate());
}

// The pool on a device that can't map: memory in segments.
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

// The driver fails: each call in turn, and at random. The pool answers with a refusal or serves
// from what it has; its state stays valid, and nothing is left on the device when it is gone.

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
