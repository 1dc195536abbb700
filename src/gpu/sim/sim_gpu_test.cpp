// The virtual clock: what calls cost, when work ends, and what waits for what.
#include "gpu/sim/sim_gpu.hpp"

#include "base/bytes.hpp"
#include "gpu/testing/page.hpp"

#include <gtest/gtest.h>

namespace vram::gpu {
namespace {

TEST(SimGpuTimeTest, TheClockIsTheSumOfWhatTheCallsCost) {
  SimGpu gpu;
  Address segment = 0;
  Address range = 0;
  Handle a = 0;
  Handle b = 0;
  ASSERT_EQ(gpu.alloc_segment(0, 20 * kMiB, &segment), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 31'000);
  ASSERT_EQ(gpu.reserve(8 * kPage, &range), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 33'000);
  ASSERT_EQ(gpu.create(0, kPage, &a), Status::kOk);
  ASSERT_EQ(gpu.create(0, kPage, &b), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 33'000 + 2 * 6'700);
  ASSERT_EQ(gpu.map(range, kPage, a), Status::kOk);
  ASSERT_EQ(gpu.map(range + kPage, kPage, b), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 46'400 + 2 * 600);
  ASSERT_EQ(gpu.set_access(range, kPage, 0), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 47'600 + 18'000) << "one handle";
  ASSERT_EQ(gpu.set_access(range, 2 * kPage, 0), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 65'600 + 2 * 21'000) << "many handles";
  ASSERT_EQ(gpu.unmap(range, 2 * kPage), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 107'600 + 2 * 12'000);
  ASSERT_EQ(gpu.release(a), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 131'600 + 7'000);
  ASSERT_EQ(gpu.free_segment(0, segment), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 138'600 + 31'000);
  EXPECT_EQ(gpu.stats().time_ns(), gpu.now_ns());
  EXPECT_EQ(gpu.stats().count(), 11u);
  EXPECT_EQ(gpu.stats()[Call::kSetAccess].count, 2u);
  EXPECT_EQ(gpu.stats()[Call::kSetAccess].time_ns, 60'000);
}

TEST(SimGpuTimeTest, ACallThatFailsIsCountedAndCostsWhatItCostsForNothing) {
  SimOptions options;
  options.devices = {{kGiB, kUnlimited}};
  SimGpu gpu(options);
  Address address = 0;
  EXPECT_EQ(gpu.alloc_segment(0, 2 * kGiB, &address), Status::kOutOfMemory);
  EXPECT_EQ(gpu.stats()[Call::kAllocSegment].count, 1u);
  EXPECT_EQ(gpu.stats()[Call::kAllocSegment].failed, 1u);
  EXPECT_EQ(gpu.now_ns(), 31'000);
}

TEST(SimGpuTimeTest, AnotherMachineIsAnotherTable) {
  SimOptions options;
  options.costs.map_ns = 5;
  options.costs.create = {{{{0, 100}, {kGiB, 100}}}, 2};
  SimGpu gpu(options);
  Handle handle = 0;
  ASSERT_EQ(gpu.create(0, 20 * kMiB, &handle), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 100);
}

TEST(SimGpuTimeTest, StreamsRunSideBySideAndInOrder) {
  SimGpu gpu;
  EventHandle first = 0;
  EventHandle second = 0;
  EventHandle other = 0;
  ASSERT_EQ(gpu.enqueue(0, 1, 10'000), Status::kOk);
  ASSERT_EQ(gpu.record(0, 1, &first), Status::kOk);
  ASSERT_EQ(gpu.enqueue(0, 1, 10'000), Status::kOk);
  ASSERT_EQ(gpu.record(0, 1, &second), Status::kOk);
  ASSERT_EQ(gpu.enqueue(0, 2, 5'000), Status::kOk);
  ASSERT_EQ(gpu.record(0, 2, &other), Status::kOk);
  EXPECT_EQ(gpu.query(other), Status::kNotReady);
  EXPECT_EQ(gpu.wait(other), Status::kOk);
  EXPECT_EQ(gpu.query(other), Status::kOk);
  EXPECT_EQ(gpu.query(first), Status::kNotReady);
  EXPECT_EQ(gpu.wait(second), Status::kOk);
  EXPECT_EQ(gpu.query(first), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 20'000 + gpu.costs().wait_ns + gpu.costs().query_ns);
  EXPECT_EQ(gpu.stats()[Call::kQuery].failed, 0u) << "not ready is an answer, not a failure";
}

TEST(SimGpuTimeTest, WorkOnAnIdleStreamStartsNow) {
  SimGpu gpu;
  EventHandle event = 0;
  ASSERT_EQ(gpu.enqueue(0, 1, 100), Status::kOk);
  gpu.advance(1'000'000);
  ASSERT_EQ(gpu.enqueue(0, 1, 100), Status::kOk);
  ASSERT_EQ(gpu.record(0, 1, &event), Status::kOk);
  EXPECT_EQ(gpu.query(event), Status::kOk) << "recording took longer than the work";
  EXPECT_EQ(gpu.now_ns(), 1'000'000 + gpu.costs().record_ns + gpu.costs().query_ns);
}

TEST(SimGpuTimeTest, AStreamWaitsWhereTheHostDoesNot) {
  SimGpu gpu;
  EventHandle producer = 0;
  EventHandle consumer = 0;
  ASSERT_EQ(gpu.enqueue(0, 1, 1'000'000), Status::kOk);
  ASSERT_EQ(gpu.record(0, 1, &producer), Status::kOk);
  ASSERT_EQ(gpu.stream_wait(0, 2, producer), Status::kOk);
  EXPECT_LT(gpu.now_ns(), 1'000'000);
  ASSERT_EQ(gpu.enqueue(0, 2, 500), Status::kOk);
  ASSERT_EQ(gpu.record(0, 2, &consumer), Status::kOk);
  ASSERT_EQ(gpu.wait(consumer), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 1'000'500 + gpu.costs().wait_ns);
}

TEST(SimGpuTimeTest, SynchronizeWaitsForAllOfOneDevice) {
  SimOptions options;
  options.devices.resize(2);
  SimGpu gpu(options);
  ASSERT_EQ(gpu.enqueue(0, 1, 10'000), Status::kOk);
  ASSERT_EQ(gpu.enqueue(0, 2, 20'000), Status::kOk);
  ASSERT_EQ(gpu.enqueue(1, 1, 99'000), Status::kOk);
  ASSERT_EQ(gpu.synchronize(0), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), 20'000 + gpu.costs().synchronize_ns);
  EXPECT_EQ(gpu.stats()[Call::kSynchronize].waited_ns, 20'000);
  EXPECT_EQ(gpu.stats()[Call::kSynchronize].time_ns, gpu.costs().synchronize_ns);
}

TEST(SimGpuTimeTest, FreeingASegmentWaitsForItsDeviceAndUnmapDoesNot) {
  SimGpu gpu;
  Address segment = 0;
  Address range = 0;
  Handle handle = 0;
  ASSERT_EQ(gpu.alloc_segment(0, 20 * kMiB, &segment), Status::kOk);
  ASSERT_EQ(gpu.reserve(kPage, &range), Status::kOk);
  ASSERT_EQ(gpu.create(0, kPage, &handle), Status::kOk);
  ASSERT_EQ(gpu.map(range, kPage, handle), Status::kOk);
  const int64_t start_ns = gpu.now_ns();
  ASSERT_EQ(gpu.enqueue(0, 3, 1'000'000), Status::kOk);
  ASSERT_EQ(gpu.unmap(range, kPage), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), start_ns + 12'000);
  ASSERT_EQ(gpu.free_segment(0, segment), Status::kOk);
  EXPECT_EQ(gpu.now_ns(), start_ns + 1'000'000 + 31'000);
  EXPECT_EQ(gpu.stats()[Call::kFreeSegment].waited_ns, 1'000'000 - 12'000);
}

}  // namespace
}  // namespace vram::gpu
