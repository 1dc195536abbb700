// Several streams on a GPU whose work runs late and names the memory that it touches: the sequences
// that once went wrong, one by one (pool_order_test.cpp has random ones).
#include "base/bytes.hpp"
#include "gpu/sim/checked_gpu.hpp"
#include "pool/pool.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace vram::pool {
namespace {

constexpr StreamHandle kA = 1;
constexpr StreamHandle kB = 2;
constexpr StreamHandle kC = 3;
constexpr gpu::WorkOrder::Flag kFlag = 1;

class OrderTest : public PoolOnSimGpu<Pool, gpu::CheckedGpu> {
 protected:
  void TearDown() override {
    gpu_.finish_work();
    EXPECT_THAT(gpu_.violations(), testing::IsEmpty());
    PoolOnSimGpu::TearDown();
  }
  // A block that is written in its stream.
  Allocation write_new(uint64_t bytes, StreamHandle stream) {
    const Allocation got = pool_.allocate(bytes, stream);
    EXPECT_NE(got.address, 0u);
    if (got.address != 0) gpu_.work(stream, {{got.address, bytes, ++last_tag_, true}});
    return got;
  }
  void forget_and_end(StreamHandle stream) {
    pool_.forget(stream);
    gpu_.end_stream(stream);
  }
  void allow_no_more() { pool_.limit(pool_.stats().reserved_bytes.current); }

  uint64_t last_tag_ = 0;
};

TEST_F(OrderTest, AForgottenUserOfABlockIsNotNamedWhenTheBlockIsFreed) {
  const Allocation block = write_new(8 * kMiB, kA);
  pool_.record_stream(block.block, kB);
  forget_and_end(kB);
  pool_.free(block.block);
  EXPECT_EQ(pool_.stats().active_bytes.current, 0u) << "no other stream uses it";
}

TEST_F(OrderTest, AForgottenStreamsLiveBlocksAreFreedWithoutIt) {
  const Allocation block = write_new(8 * kMiB, kA);
  (void)write_new(512, kB);
  forget_and_end(kA);
  pool_.free(block.block);
  allow_no_more();
  EXPECT_EQ(write_new(8 * kMiB, kB).address, block.address);
}

// |....|1...|....|1...|: two free ends are stitched, freed, and forgotten.
TEST_F(OrderTest, AForgottenStreamsStitchIsDroppedWithoutIt) {
  std::vector<Allocation> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(write_new(4 * kMiB, kA));
  (void)write_new(512, kB);
  allow_no_more();
  pool_.free(blocks[0].block);
  pool_.free(blocks[2].block);
  const Allocation stitched = write_new(8 * kMiB, kA);
  ASSERT_EQ(pool_.stats().stitches, 1u);
  pool_.free(stitched.block);
  forget_and_end(kA);
  EXPECT_EQ(pool_.trim(kGiB), 0u) << "its work is not done";
  EXPECT_EQ(pool_.wait(), Status::kOk);
  EXPECT_EQ(pool_.trim(kGiB), 8 * kMiB);
}

// Nothing is waited for. What the stream's events say is enough.
TEST_F(OrderTest, AForgottenStreamIsNotNamedAnyMore) {
  const Allocation block = write_new(8 * kMiB, kA);
  (void)write_new(512, kB);
  forget_and_end(kA);
  pool_.free(block.block);
  EXPECT_NE(write_new(8 * kMiB, kB).address, block.address) << "its work is not done";
  gpu_.finish_work();
  allow_no_more();
  EXPECT_EQ(write_new(8 * kMiB, kB).address, block.address);
}

TEST_F(OrderTest, ANewStreamWithAForgottenHandleInheritsNoUnfinishedMemory) {
  const Allocation block = write_new(8 * kMiB, kA);
  pool_.free(block.block);
  forget_and_end(kA);
  gpu_.begin_stream(kA);
  EXPECT_NE(write_new(8 * kMiB, kA).address, block.address);
}

// B's kernel sets the flag that A's waits for: B must not be put behind A while memory can grow.
TEST_F(OrderTest, NoStreamWaitsWhileMemoryCanGrow) {
  const Allocation block = write_new(16 * kMiB, kA);
  (void)write_new(512, kB);
  gpu_.work(kA, {}, kFlag);
  pool_.free(block.block);
  (void)write_new(16 * kMiB, kB);
  EXPECT_EQ(pool_.stats().stream_waits, 0u);
  gpu_.work(kB, {}, 0, kFlag);
}

// Where it can't grow, B waits for A's work up to the free, and for nothing that came later.
TEST_F(OrderTest, AStreamWaitsForTheWorkBeforeTheFreeAlone) {
  const Allocation block = write_new(16 * kMiB, kA);
  (void)write_new(512, kB);
  allow_no_more();
  pool_.free(block.block);
  gpu_.work(kA, {}, kFlag);
  EXPECT_EQ(write_new(16 * kMiB, kB).address, block.address);
  gpu_.work(kB, {}, 0, kFlag);
}

// A block that a third stream uses, too, is free when that is done: for B, after A's work before
// the free all the same.
TEST_F(OrderTest, AStreamWaitsForTheWorkBeforeTheFreeOfASharedBlockAlone) {
  const Allocation block = write_new(16 * kMiB, kA);
  (void)write_new(512, kB);
  pool_.record_stream(block.block, kC);
  allow_no_more();
  pool_.free(block.block);
  gpu_.work(kA, {}, kFlag);
  EXPECT_EQ(write_new(16 * kMiB, kB).address, block.address);
  gpu_.work(kB, {}, 0, kFlag);
}

// Memory that was lent comes back as a block does.
TEST_F(OrderTest, AStreamWaitsForTheWorkBeforeALeaseCameBackAlone) {
  Lease lease;
  ASSERT_TRUE(pool_.lend(16 * kMiB, 16 * kMiB, kA, &lease));
  const Address address = lease.address;
  gpu_.work(kA, {{address, 16 * kMiB, ++last_tag_, true}});
  (void)write_new(512, kB);
  allow_no_more();
  pool_.give_back(&lease, 16 * kMiB, kA);
  gpu_.work(kA, {}, kFlag);
  EXPECT_EQ(write_new(16 * kMiB, kB).address, address);
  gpu_.work(kB, {}, 0, kFlag);
}

// The same where the device, and no limit, has no more.
TEST_F(OrderTest, AStreamWaitsForTheWorkBeforeTheFreeAloneOnAFullDevice) {
  const Allocation block = write_new(40 * kMiB, kA);
  (void)write_new(512, kB);
  EXPECT_EQ(pool_.allocate(64 * kMiB, kB).address, 0u);
  pool_.free(block.block);
  gpu_.work(kA, {}, kFlag);
  EXPECT_EQ(write_new(40 * kMiB, kB).address, block.address);
  gpu_.work(kB, {}, 0, kFlag);
}

// Serials wrap after 2^32 allocations; a block that lives for as long keeps its users.
TEST_F(OrderTest, BlocksWithEqualSerialsAreNotConfused) {
  pool_.restart_serials(77);
  const Allocation old = write_new(4 * kMiB, kA);
  pool_.restart_serials(77);
  const Allocation young = write_new(4 * kMiB, kA);
  ASSERT_EQ(old.block.serial, young.block.serial);
  for (const Allocation& block : {old, young}) {
    gpu::EventHandle event = 0;
    ASSERT_EQ(gpu_.record(0, kA, &event), Status::kOk);
    ASSERT_EQ(gpu_.stream_wait(0, kB, event), Status::kOk);
    pool_.record_stream(block.block, kB);
    gpu_.work(kB, {{block.address, 4 * kMiB, block.address == old.address ? 1u : 2u, false}});
  }
  gpu_.begin_capture(kB);  // no stream can wait for it
  pool_.free(young.block);
  pool_.free(old.block);
  EXPECT_EQ(pool_.stats().active_bytes.current, 8 * kMiB);
  allow_no_more();
  EXPECT_EQ(pool_.allocate(4 * kMiB, kA).address, 0u) << "B still reads";
  gpu_.end_capture(kB);
  EXPECT_NE(write_new(4 * kMiB, kA).address, 0u);
  EXPECT_NE(write_new(4 * kMiB, kA).address, 0u) << "neither is held for ever";
}

// |A...|A...|A...|C...|C...|: B needs 8 MiB. What a captured stream may still use would do in one
// piece; what A has freed, in two.
TEST_F(OrderTest, WhatACapturedStreamHoldsDoesNotKeepOthersFromBeingWaitedFor) {
  std::vector<Allocation> of_a;
  for (int i = 0; i < 3; ++i) of_a.push_back(write_new(4 * kMiB, kA));
  std::vector<Allocation> of_captured;
  for (int i = 0; i < 2; ++i) of_captured.push_back(write_new(4 * kMiB, kC));
  (void)write_new(512, kB);
  allow_no_more();
  gpu_.begin_capture(kC);
  for (const Allocation& block : of_captured) pool_.free(block.block);
  pool_.free(of_a[0].block);
  pool_.free(of_a[2].block);
  EXPECT_NE(write_new(8 * kMiB, kB).address, 0u);
  EXPECT_EQ(pool_.allocate(8 * kMiB, kB).address, 0u) << "the other 8 MiB are used";
  gpu_.end_capture(kC);
  EXPECT_NE(write_new(8 * kMiB, kB).address, 0u);
}

// Where graphs are launched, no stream is made to wait (lost_wait.cu says why): the host waits for
// A's work up to the free, and for nothing that came later.
TEST_F(OrderTest, TheHostWaitsForTheWorkBeforeTheFreeAloneWhereThereAreGraphs) {
  pool_.allow_recording(false);
  pool_.allow_recording(true);
  const Allocation block = write_new(16 * kMiB, kA);
  (void)write_new(512, kB);
  allow_no_more();
  pool_.free(block.block);
  gpu_.work(kA, {}, kFlag);
  EXPECT_EQ(write_new(16 * kMiB, kB).address, block.address);
  EXPECT_EQ(pool_.stats().stream_waits, 0u);
  gpu_.work(kB, {}, 0, kFlag);
}

// What was freed during a capture has no event then. It gets one when the capture ends, so that
// what is queued afterwards is not waited for.
TEST_F(OrderTest, TheHostDoesNotWaitForWorkAfterTheCaptureDuringWhichABlockWasFreed) {
  const Allocation block = write_new(16 * kMiB, kA);
  (void)write_new(512, kB);
  allow_no_more();
  pool_.allow_recording(false);
  pool_.free(block.block);
  pool_.allow_recording(true);
  gpu_.work(kA, {}, kFlag);
  EXPECT_EQ(write_new(16 * kMiB, kB).address, block.address);
  gpu_.work(kB, {}, 0, kFlag);
}

// |A...|A...|C...|C...|: B needs 8 MiB, of which A and C have freed a half each.
TEST_F(OrderTest, TheHostWaitsForTheFreesAloneOfTheParts) {
  pool_.allow_recording(false);
  pool_.allow_recording(true);
  std::vector<Allocation> blocks;
  for (const StreamHandle stream : {kA, kA, kC, kC}) blocks.push_back(write_new(4 * kMiB, stream));
  (void)write_new(512, kB);
  allow_no_more();
  pool_.free(blocks[0].block);
  pool_.free(blocks[2].block);
  gpu_.work(kA, {}, kFlag);
  gpu_.work(kC, {}, kFlag + 1);
  EXPECT_NE(write_new(8 * kMiB, kB).address, 0u);
  gpu_.work(kB, {}, 0, kFlag);
  gpu_.work(kB, {}, 0, kFlag + 1);
}

// |x...|1...|y...|: A frees x, then y behind work that waits for B's. B needs x alone.
TEST_F(OrderTest, TheHostWaitsForTheEarliestEventBehindTheFree) {
  pool_.allow_recording(false);
  pool_.allow_recording(true);
  std::vector<Allocation> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(write_new(8 * kMiB, kA));
  (void)write_new(512, kB);
  allow_no_more();
  pool_.free(blocks[0].block);
  gpu_.work(kA, {}, kFlag);
  pool_.free(blocks[2].block);
  EXPECT_EQ(write_new(8 * kMiB, kB).address, blocks[0].address);
  gpu_.work(kB, {}, 0, kFlag);
}

// A forgotten stream's memory, while another stream is captured: its last event is enough.
TEST_F(OrderTest, AForgottenStreamsMemoryIsWaitedForDuringACapture) {
  const Allocation block = write_new(16 * kMiB, kA);
  (void)write_new(512, kB);
  allow_no_more();
  pool_.allow_recording(false);
  gpu_.begin_capture(kC);
  pool_.free(block.block);
  forget_and_end(kA);
  EXPECT_EQ(write_new(16 * kMiB, kB).address, block.address);
  gpu_.end_capture(kC);
  pool_.allow_recording(true);
}

// An event from before the capture follows the work that the stream had queued until then.
TEST_F(OrderTest, TheWorkOfACapturedStreamFromBeforeTheCaptureIsWaitedFor) {
  const Allocation block = write_new(16 * kMiB, kB);
  gpu::EventHandle event = 0;
  ASSERT_EQ(gpu_.record(0, kB, &event), Status::kOk);
  ASSERT_EQ(gpu_.stream_wait(0, kA, event), Status::kOk);
  gpu_.work(kA, {{block.address, 16 * kMiB, last_tag_, false}});
  pool_.record_stream(block.block, kA);
  const Allocation small = write_new(512, kB);
  allow_no_more();
  pool_.free(block.block);
  gpu_.begin_capture(kA);
  pool_.free(small.block);
  EXPECT_EQ(write_new(16 * kMiB, kB).address, block.address);
  gpu_.end_capture(kA);
}

}  // namespace
}  // namespace vram::pool
