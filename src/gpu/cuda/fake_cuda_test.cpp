// The fake driver itself: it refuses what the real one refuses, and its memory is real. What can be
// seen through CudaMemory is tested there.
#include "gpu/testing/fake_cuda.hpp"

#include "gpu/testing/page.hpp"
#include "gpu/testing/worlds.hpp"

#include <gtest/gtest.h>

#include <array>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vram::gpu::cuda {
namespace {

// Whether this process can read the byte: asked of the kernel, which answers without a signal.
bool is_readable(CUdeviceptr address) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const long written = syscall(SYS_write, ends[1], address, 1);
  close(ends[0]);
  close(ends[1]);
  return written == 1;
}

class FakeCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda_reset(2, kWorldBytes);
    driver_ = DriverApi::load(fake_cuda_path()).value();
  }
  CUmemHandle create(size_t bytes = kPage) {
    CUmemHandle handle = 0;
    const CUmemAllocationProp prop;
    EXPECT_EQ(driver_.mem_create(&handle, bytes, &prop, 0), kSuccess);
    return handle;
  }
  CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr range = 0;
    EXPECT_EQ(driver_.mem_address_reserve(&range, bytes, 0, 0, 0), kSuccess);
    return range;
  }
  DriverApi driver_;
};

TEST_F(FakeCudaTest, NothingWorksBeforeInit) {
  fake_cuda_reset(2, kWorldBytes);
  int count = 0;
  CUmemHandle handle = 0;
  const CUmemAllocationProp prop;
  EXPECT_EQ(driver_.device_get_count(&count), kErrorNotInitialized);
  EXPECT_EQ(driver_.mem_create(&handle, kPage, &prop, 0), kErrorNotInitialized);
  EXPECT_EQ(driver_.init(0), kSuccess);
  EXPECT_EQ(driver_.device_get_count(&count), kSuccess);
}

TEST_F(FakeCudaTest, SomeCallsNeedAContextThatLives) {
  size_t free = 0;
  size_t total = 0;
  CUevent event = nullptr;
  CUdeviceptr address = 0;
  EXPECT_EQ(driver_.mem_get_info(&free, &total), kErrorInvalidContext);
  EXPECT_EQ(driver_.mem_alloc(&address, kPage), kErrorInvalidContext);
  EXPECT_EQ(driver_.event_create(&event, 0), kErrorInvalidContext);
  EXPECT_EQ(driver_.ctx_synchronize(), kErrorInvalidContext);
  CUcontext context = nullptr;
  ASSERT_EQ(driver_.device_primary_ctx_retain(&context, 0), kSuccess);
  ASSERT_EQ(driver_.ctx_push_current(context), kSuccess);
  EXPECT_EQ(driver_.mem_get_info(&free, &total), kSuccess);
  EXPECT_EQ(total, kWorldBytes);
  ASSERT_EQ(driver_.device_primary_ctx_release(0), kSuccess);
  EXPECT_EQ(driver_.mem_get_info(&free, &total), kErrorInvalidContext) << "it is gone";
  EXPECT_EQ(driver_.device_primary_ctx_release(0), kErrorInvalidContext);
}

TEST_F(FakeCudaTest, HandlesAreMappedFromTheirBeginning) {
  const CUdeviceptr range = reserve(4 * kPage);
  EXPECT_EQ(driver_.mem_map(range, kPage, kPage, create(2 * kPage), 0), kErrorNotSupported);
}

TEST_F(FakeCudaTest, AnEventIsRecordedOnItsOwnDevice) {
  std::array<CUcontext, 2> contexts{};
  CUevent event = nullptr;
  for (int device : {0, 1}) {
    CUcontext& context = contexts[static_cast<size_t>(device)];
    ASSERT_EQ(driver_.device_primary_ctx_retain(&context, device), kSuccess);
  }
  ASSERT_EQ(driver_.ctx_push_current(contexts[0]), kSuccess);
  ASSERT_EQ(driver_.event_create(&event, kEventDisableTiming), kSuccess);
  ASSERT_EQ(driver_.ctx_push_current(contexts[1]), kSuccess);
  EXPECT_EQ(driver_.event_record(event, nullptr), kErrorInvalidHandle);
  EXPECT_EQ(driver_.event_destroy(event), kSuccess);
  EXPECT_EQ(driver_.event_destroy(event), kErrorInvalidHandle);
}

TEST_F(FakeCudaTest, OnlyWhatIsMappedAndOpenedCanBeTouched) {
  const CUdeviceptr range = reserve(2 * kPage);
  const CUmemAccessDesc access;
  EXPECT_FALSE(is_readable(range));
  ASSERT_EQ(driver_.mem_map(range, kPage, 0, create(), 0), kSuccess);
  EXPECT_FALSE(is_readable(range));
  ASSERT_EQ(driver_.mem_set_access(range, kPage, &access, 1), kSuccess);
  EXPECT_TRUE(is_readable(range));
  EXPECT_TRUE(is_readable(range + kPage - 1));
  EXPECT_FALSE(is_readable(range + kPage));
  ASSERT_EQ(driver_.mem_unmap(range, kPage), kSuccess);
  EXPECT_FALSE(is_readable(range));
}

TEST_F(FakeCudaTest, LeaksAreSeen) {
  const CUdeviceptr range = reserve(2 * kPage);
  const CUmemHandle handle = create(2 * kPage);
  ASSERT_EQ(driver_.mem_map(range, 2 * kPage, 0, handle, 0), kSuccess);
  FakeCudaAlive alive = fake_cuda_alive();
  EXPECT_EQ(alive.handles, 1u);
  EXPECT_EQ(alive.mappings, 1u);
  EXPECT_EQ(alive.reservations, 1u);
  EXPECT_EQ(alive.used_bytes, 2 * kPage);
  ASSERT_EQ(driver_.mem_release(handle), kSuccess);
  alive = fake_cuda_alive();
  EXPECT_EQ(alive.handles, 0u);
  EXPECT_EQ(alive.used_bytes, 2 * kPage) << "held by the mapping";
}

TEST_F(FakeCudaTest, ANamedCallFailsTheNthTimeAndOnce) {
  fake_cuda_fail_nth("cuMemCreate", 2, kErrorNotSupported);
  CUmemHandle handle = 0;
  const CUmemAllocationProp prop;
  (void)reserve(kPage);
  EXPECT_EQ(driver_.mem_create(&handle, kPage, &prop, 0), kSuccess);
  EXPECT_EQ(driver_.mem_create(&handle, kPage, &prop, 0), kErrorNotSupported);
  EXPECT_EQ(driver_.mem_create(&handle, kPage, &prop, 0), kSuccess);
  EXPECT_EQ(fake_cuda_calls("cuMemCreate"), 3u);
  EXPECT_EQ(fake_cuda_alive().handles, 2u);
}

TEST_F(FakeCudaTest, CapacityMayFallBelowWhatIsUsed) {
  (void)create(40 * kMiB);
  fake_cuda_set_capacity(0, 30 * kMiB);
  CUmemHandle handle = 0;
  const CUmemAllocationProp prop;
  EXPECT_EQ(driver_.mem_create(&handle, kPage, &prop, 0), kErrorOutOfMemory);
  size_t bytes = 0;
  EXPECT_EQ(driver_.device_total_mem(&bytes, 0), kSuccess);
  EXPECT_EQ(bytes, 30 * kMiB);
}

// No test here calls it, but programs under test may.
TEST_F(FakeCudaTest, SynchronizingAStreamFinishesItAlone) {
  FakeCudaWorld world;
  void* const library = dlopen(fake_cuda_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  const auto synchronize =
      reinterpret_cast<CUresult (*)(CUstream)>(dlsym(library, "cuStreamSynchronize"));
  ASSERT_NE(synchronize, nullptr);
  CUcontext context = nullptr;
  ASSERT_EQ(driver_.device_primary_ctx_retain(&context, 0), kSuccess);
  ASSERT_EQ(driver_.ctx_push_current(context), kSuccess);
  std::array<EventHandle, 2> events{};
  world.queue(0);
  world.queue(5);
  ASSERT_EQ(world.memory().record(0, 0, &events[0]), Status::kOk);
  ASSERT_EQ(world.memory().record(0, 5, &events[1]), Status::kOk);
  EXPECT_EQ(synchronize(nullptr), kSuccess);
  EXPECT_EQ(world.memory().query(events[0]), Status::kOk);
  EXPECT_EQ(world.memory().query(events[1]), Status::kNotReady);
  ASSERT_EQ(driver_.ctx_pop_current(&context), kSuccess);
  ASSERT_EQ(driver_.device_primary_ctx_release(0), kSuccess);
}

// Chains of streams that wait for each other: 1 works, 2 waits for 1, 3 waits for 2.
TEST_F(FakeCudaTest, WorkIsDoneWhenAllThatItWaitsForIsDone) {
  FakeCudaWorld world;
  CudaMemory& gpu = world.memory();
  std::array<EventHandle, 3> ends{};  // of streams 1, 2, 3
  world.queue(1);
  ASSERT_EQ(gpu.record(0, 1, &ends[0]), Status::kOk);
  ASSERT_EQ(gpu.stream_wait(0, 2, ends[0]), Status::kOk);
  ASSERT_EQ(gpu.record(0, 2, &ends[1]), Status::kOk);
  ASSERT_EQ(gpu.stream_wait(0, 3, ends[1]), Status::kOk);
  world.queue(3);
  ASSERT_EQ(gpu.record(0, 3, &ends[2]), Status::kOk);
  world.finish(3);
  EXPECT_EQ(gpu.query(ends[2]), Status::kNotReady) << "it waits for 2, which waits for 1";
  world.finish(1);
  EXPECT_EQ(gpu.query(ends[2]), Status::kOk);
}

}  // namespace
}  // namespace vram::gpu::cuda
