// While a CUDA graph is captured: memory works as usual, and the graph contains what it would
// contain without vram.
#include "gpu/testing/page.hpp"
#include "gpu/testing/worlds.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace vram::gpu::cuda {
namespace {

constexpr StreamHandle kStream = 1;

// The driver's, and whether another thread captures at the same moment.
CUresult (*driver_record)(CUevent, CUstream) = nullptr;
bool is_racing = false;

class CaptureTest : public testing::Test {
 protected:
  CaptureTest() {
    EXPECT_EQ(gpu().record(0, 2, &before_), Status::kOk);
    fake_cuda_begin_capture(0, stream());
  }
  CudaMemory& gpu() { return world_.memory(); }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): streams are numbers to us
  static void* stream(StreamHandle number = kStream) { return reinterpret_cast<void*>(number); }
  void use_memory() {
    Address segment = 0;
    Address range = 0;
    Handle handle = 0;
    EXPECT_EQ(gpu().alloc_segment(0, kPage, &segment), Status::kOk);
    EXPECT_EQ(gpu().free_segment(0, segment), Status::kOk);
    EXPECT_EQ(gpu().reserve(kPage, &range), Status::kOk);
    EXPECT_EQ(gpu().create(0, kPage, &handle), Status::kOk);
    EXPECT_EQ(gpu().map(range, kPage, handle), Status::kOk);
    EXPECT_EQ(gpu().set_access(range, kPage, 0), Status::kOk);
    EXPECT_EQ(gpu().query(before_), Status::kOk);
    EXPECT_EQ(gpu().wait(before_), Status::kOk);
    EXPECT_EQ(gpu().unmap(range, kPage), Status::kOk);
    EXPECT_EQ(gpu().release(handle), Status::kOk);
    EXPECT_EQ(gpu().unreserve(range, kPage), Status::kOk);
  }
  FakeCudaWorld world_;
  EventHandle before_ = 0;
};

TEST_F(CaptureTest, TheDriverForbidsMemoryCallsToThreadsThatDoNotAsk) {
  CUmemHandle handle = 0;
  const CUmemAllocationProp prop;
  EXPECT_EQ(world_.driver().mem_create(&handle, kPage, &prop, 0), kErrorCaptureUnsupported);
  EXPECT_EQ(fake_cuda_end_capture(0, stream()), -1) << "and takes the capture for spoilt";
}

TEST_F(CaptureTest, MemoryIsUsedAsEver) {
  use_memory();
  EXPECT_EQ(fake_cuda_end_capture(0, stream()), 0);
}

TEST_F(CaptureTest, MemoryIsUsedAsEverByOtherThreads) {
  std::thread([&] { use_memory(); }).join();
  EXPECT_EQ(fake_cuda_end_capture(0, stream()), 0);
}

TEST_F(CaptureTest, TheThreadsModeIsRestored) {
  use_memory();
  CUcaptureMode mode = kCaptureThreadLocal;
  ASSERT_EQ(world_.driver().thread_exchange_stream_capture_mode(&mode), kSuccess);
  EXPECT_EQ(mode, kCaptureGlobal);
  use_memory();
  ASSERT_EQ(world_.driver().thread_exchange_stream_capture_mode(&mode), kSuccess);
  EXPECT_EQ(mode, kCaptureThreadLocal);
}

TEST_F(CaptureTest, NothingIsAddedToTheGraph) {
  EventHandle event = 0;
  EXPECT_EQ(gpu().record(0, kStream, &event), Status::kNotReady);
  EXPECT_EQ(event, 0u);
  EXPECT_EQ(gpu().stream_wait(0, kStream, before_), Status::kNotReady);
  EXPECT_EQ(gpu().record(0, 3, &event), Status::kOk) << "a stream that is not captured";
  EXPECT_EQ(gpu().stream_wait(0, 3, before_), Status::kOk);
  EXPECT_EQ(fake_cuda_end_capture(0, stream()), 0);
  EXPECT_EQ(gpu().record(0, kStream, &event), Status::kOk) << "once it is over";
}

TEST_F(CaptureTest, TheDefaultStreamIsLeftAloneWhileItCantBeUsed) {
  EventHandle event = 0;
  const uint64_t recorded = fake_cuda_calls("cuEventRecord");
  fake_cuda_fail_nth("cuStreamIsCapturing", 1, kErrorCaptureImplicit);
  EXPECT_EQ(gpu().record(0, 0, &event), Status::kNotReady);
  EXPECT_EQ(fake_cuda_calls("cuEventRecord"), recorded);
}

// Another thread begins to capture the stream after the check that no thread does. An event of a
// graph never completes, so what waits for it would wait forever.
TEST_F(CaptureTest, AnEventThatFallsIntoACaptureIsThrownAway) {
  driver_record = world_.driver().event_record;
  DriverApi driver = world_.driver();
  driver.event_record = [](CUevent event, CUstream captured) {
    if (is_racing) fake_cuda_begin_capture(0, captured);
    return driver_record(event, captured);
  };
  is_racing = true;
  const auto raced = CudaMemory::open(driver, 0);
  ASSERT_TRUE(raced) << raced.error().message;
  EventHandle event = 0;
  EXPECT_EQ((*raced)->record(0, 3, &event), Status::kNotReady);
  EXPECT_EQ(event, 0u);
  is_racing = false;
  ASSERT_EQ((*raced)->record(0, 4, &event), Status::kOk);
  EXPECT_EQ((*raced)->query(event), Status::kOk) << "it is another event";
  EXPECT_GE(fake_cuda_end_capture(0, stream(3)), 0) << "which was not spoilt";
}

// It begins and ends within one record: seen when the event is asked.
TEST_F(CaptureTest, AnEventOfAGraphIsNotUsedAgain) {
  driver_record = world_.driver().event_record;
  DriverApi driver = world_.driver();
  driver.event_record = [](CUevent event, CUstream captured) {
    if (!is_racing) return driver_record(event, captured);
    fake_cuda_begin_capture(0, captured);
    const CUresult result = driver_record(event, captured);
    (void)fake_cuda_end_capture(0, captured);
    return result;
  };
  is_racing = true;
  const auto raced = CudaMemory::open(driver, 0);
  ASSERT_TRUE(raced) << raced.error().message;
  EventHandle event = 0;
  ASSERT_EQ((*raced)->record(0, 3, &event), Status::kOk);
  const uint64_t events = fake_cuda_alive().events;
  EXPECT_EQ((*raced)->query(event), Status::kInvalidValue);
  EXPECT_EQ(fake_cuda_alive().events, events - 1);
  EXPECT_EQ((*raced)->destroy(event), Status::kInvalidValue) << "it is gone";
}

TEST(BlockingCaptureTest, SynchronizeLeavesItAlone) {
  FakeCudaWorld world;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): streams are numbers to us
  void* const stream = reinterpret_cast<void*>(kStream);
  fake_cuda_begin_blocking_capture(0, stream);
  EXPECT_EQ(world.memory().synchronize(0), Status::kNotReady);
  EventHandle event = 0;
  EXPECT_EQ(world.memory().record(0, 0, &event), Status::kNotReady);
  EXPECT_EQ(fake_cuda_end_capture(0, stream), 0) << "the driver was asked first";
  EXPECT_EQ(world.memory().synchronize(0), Status::kOk);
}

TEST_F(CaptureTest, SynchronizeIsRefusedAndNoFault) {
  EXPECT_EQ(gpu().synchronize(0), Status::kNotReady);
  EXPECT_EQ(fake_cuda_end_capture(0, stream()), -1) << "which is why the header warns of it";
  EXPECT_EQ(gpu().synchronize(0), Status::kOk);
}

}  // namespace
}  // namespace vram::gpu::cuda
