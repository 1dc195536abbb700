// What CudaMemory promises beyond the rules of memory.hpp: contexts, peers, counts, devices that
// lack something or are lost.
#include "gpu/cuda/cuda_memory.hpp"

#include "gpu/cuda/driver.hpp"
#include "gpu/testing/fake_cuda.hpp"
#include "gpu/testing/page.hpp"
#include "gpu/testing/worlds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace vram::gpu::cuda {
namespace {

class CudaMemoryTest : public testing::Test {
 protected:
  CudaMemory& gpu() { return world_.memory(); }
  const DriverApi& driver() { return world_.driver(); }
  Handle create() {
    Handle handle = 0;
    EXPECT_EQ(gpu().create(0, kPage, &handle), Status::kOk);
    return handle;
  }
  CUcontext current() {
    CUcontext context = nullptr;
    EXPECT_EQ(driver().ctx_get_current(&context), kSuccess);
    return context;
  }
  // Every call that a pool makes.
  void call_everything() {
    Address segment = 0;
    Address range = 0;
    EventHandle event = 0;
    MemoryInfo info;
    EXPECT_EQ(gpu().memory_info(0, &info), Status::kOk);
    EXPECT_EQ(gpu().alloc_segment(0, kPage, &segment), Status::kOk);
    EXPECT_EQ(gpu().free_segment(0, segment), Status::kOk);
    EXPECT_EQ(gpu().reserve(kPage, &range), Status::kOk);
    const Handle handle = create();
    EXPECT_EQ(gpu().map(range, kPage, handle), Status::kOk);
    EXPECT_EQ(gpu().set_access(range, kPage, 0), Status::kOk);
    EXPECT_EQ(gpu().record(0, 7, &event), Status::kOk);
    EXPECT_EQ(gpu().query(event), Status::kOk);
    EXPECT_EQ(gpu().wait(event), Status::kOk);
    EXPECT_EQ(gpu().stream_wait(0, 8, event), Status::kOk);
    EXPECT_EQ(gpu().destroy(event), Status::kOk);
    EXPECT_EQ(gpu().synchronize(0), Status::kOk);
    EXPECT_EQ(gpu().unmap(range, kPage), Status::kOk);
    EXPECT_EQ(gpu().release(handle), Status::kOk);
    EXPECT_EQ(gpu().unreserve(range, kPage), Status::kOk);
  }
  FakeCudaWorld world_;
};

TEST_F(CudaMemoryTest, AThreadWithoutAContextHasNoneAfterwards) {
  std::thread([&] {
    call_everything();
    EXPECT_EQ(current(), nullptr);
  }).join();
}

TEST_F(CudaMemoryTest, AThreadKeepsTheContextOfAnotherDevice) {
  CUcontext other = nullptr;
  ASSERT_EQ(driver().device_primary_ctx_retain(&other, 1), kSuccess);
  ASSERT_EQ(driver().ctx_push_current(other), kSuccess);
  call_everything();
  EXPECT_EQ(current(), other);
  MemoryInfo info;
  fake_cuda_take(1, 10 * kMiB);
  ASSERT_EQ(gpu().memory_info(0, &info), Status::kOk);
  EXPECT_EQ(info.free_bytes, kWorldBytes) << "of device 0, whatever is current";
  CUcontext popped = nullptr;
  ASSERT_EQ(driver().ctx_pop_current(&popped), kSuccess);
  ASSERT_EQ(driver().device_primary_ctx_release(1), kSuccess);
}

TEST_F(CudaMemoryTest, AContextThatIsCurrentAlreadyIsNotPushedAgain) {
  CUcontext context = nullptr;
  ASSERT_EQ(driver().device_primary_ctx_retain(&context, 0), kSuccess);
  ASSERT_EQ(driver().ctx_push_current(context), kSuccess);
  const uint64_t pushes = fake_cuda_calls("cuCtxPushCurrent_v2");
  call_everything();
  EXPECT_EQ(fake_cuda_calls("cuCtxPushCurrent_v2"), pushes);
  EXPECT_EQ(current(), context);
  ASSERT_EQ(driver().ctx_pop_current(&context), kSuccess);
  ASSERT_EQ(driver().device_primary_ctx_release(0), kSuccess);
}

TEST_F(CudaMemoryTest, MemoryThatOthersTakeIsNotFree) {
  fake_cuda_take(0, 60 * kMiB);
  MemoryInfo info;
  Handle handle = 0;
  ASSERT_EQ(gpu().memory_info(0, &info), Status::kOk);
  EXPECT_EQ(info.free_bytes, 4 * kMiB);
  EXPECT_EQ(gpu().create(0, 6 * kMiB, &handle), Status::kOutOfMemory);
  EXPECT_EQ(gpu().create(0, 4 * kMiB, &handle), Status::kOk);
}

TEST_F(CudaMemoryTest, EventsAreMadeOnceAndUsedAgain) {
  EventHandle events[2] = {};
  for (int round = 0; round < 5; ++round) {
    for (EventHandle& event : events) ASSERT_EQ(gpu().record(0, 1, &event), Status::kOk);
    for (const EventHandle event : events) ASSERT_EQ(gpu().destroy(event), Status::kOk);
  }
  EXPECT_EQ(fake_cuda_calls("cuEventCreate"), 2u);
  EXPECT_EQ(fake_cuda_calls("cuEventRecord"), 10u);
}

TEST_F(CudaMemoryTest, AnEventThatCouldNotBeRecordedIsKeptForTheNext) {
  EventHandle event = 0;
  fake_cuda_fail_nth("cuEventRecord", 1, kErrorUnknown);
  EXPECT_EQ(gpu().record(0, 1, &event), Status::kFault);
  EXPECT_EQ(event, 0u);
  EXPECT_EQ(gpu().record(0, 1, &event), Status::kOk);
  EXPECT_EQ(fake_cuda_calls("cuEventCreate"), 1u);
}

TEST_F(CudaMemoryTest, AnEventUsedAgainMarksTheNewPoint) {
  EventHandle first = 0;
  EventHandle second = 0;
  world_.queue(1);
  ASSERT_EQ(gpu().record(0, 1, &first), Status::kOk);
  ASSERT_EQ(gpu().destroy(first), Status::kOk);
  ASSERT_EQ(gpu().record(0, 2, &second), Status::kOk);
  EXPECT_EQ(gpu().query(second), Status::kOk) << "stream 2 is idle";
  EXPECT_EQ(gpu().query(first), Status::kInvalidValue);
}

TEST_F(CudaMemoryTest, AStreamOfAnotherDeviceTakesAnEventOfItsOwnDevice) {
  CUcontext other = nullptr;
  ASSERT_EQ(driver().device_primary_ctx_retain(&other, 1), kSuccess);
  fake_cuda_place_stream(1, as_stream(9));
  fake_cuda_queue(1, as_stream(9));
  EventHandle event = 0;
  ASSERT_EQ(gpu().record(0, 9, &event), Status::kOk);
  EXPECT_EQ(gpu().query(event), Status::kNotReady);
  fake_cuda_finish(1, as_stream(9));
  EXPECT_EQ(gpu().query(event), Status::kOk);
  EXPECT_EQ(gpu().destroy(event), Status::kOk);
  EXPECT_EQ(gpu().query(event), Status::kInvalidValue);
  ASSERT_EQ(gpu().record(0, 1, &event), Status::kOk) << "by an event of this device";
  EXPECT_EQ(gpu().destroy(event), Status::kOk);
  EXPECT_EQ(fake_cuda_alive().events, 1u);
  EXPECT_EQ(current(), nullptr);
  ASSERT_EQ(driver().device_primary_ctx_release(1), kSuccess);
}

TEST_F(CudaMemoryTest, CountsCallsForMemoryAndTheTimeInThem) {
  EXPECT_EQ(gpu().calls(), 0u);
  EXPECT_EQ(gpu().time_ns(), 0u);
  call_everything();
  EXPECT_EQ(gpu().calls(), 7u) << "alloc, free, create, map, set_access, unmap, release";
  const uint64_t time_ns = gpu().time_ns();
  EXPECT_GT(time_ns, 0u);
  Handle handle = 0;
  EXPECT_EQ(gpu().create(0, 2 * kWorldBytes, &handle), Status::kOutOfMemory);
  EXPECT_EQ(gpu().calls(), 8u) << "one that failed is a call";
  EXPECT_GT(gpu().time_ns(), time_ns);
}

TEST_F(CudaMemoryTest, PeersGetAccessWithTheDeviceItself) {
  Address range = 0;
  ASSERT_EQ(gpu().reserve(kPage, &range), Status::kOk);
  ASSERT_EQ(gpu().map(range, kPage, create()), Status::kOk);
  ASSERT_EQ(gpu().set_access(range, kPage, 0), Status::kOk);
  EXPECT_TRUE(fake_cuda_can_touch(0, range));
  EXPECT_FALSE(fake_cuda_can_touch(1, range));
  EXPECT_TRUE(gpu().supports_peer(1));
  ASSERT_EQ(gpu().allow_peer(1), Status::kOk);
  EXPECT_FALSE(fake_cuda_can_touch(1, range)) << "mapped before";
  ASSERT_EQ(gpu().set_access(range, kPage, 0), Status::kOk);
  EXPECT_TRUE(fake_cuda_can_touch(0, range));
  EXPECT_TRUE(fake_cuda_can_touch(1, range));
}

TEST_F(CudaMemoryTest, PeersThatCantReachTheDeviceAreRefused) {
  fake_cuda_set_peer(1, 0, false);  // 1 to 0, which is what counts, and not 0 to 1
  EXPECT_FALSE(gpu().supports_peer(1));
  EXPECT_EQ(gpu().allow_peer(1), Status::kNotSupported);
  EXPECT_EQ(gpu().allow_peer(2), Status::kInvalidValue);
  EXPECT_TRUE(gpu().supports_peer(0));
  EXPECT_EQ(gpu().allow_peer(0), Status::kOk);
  EXPECT_FALSE(gpu().supports_peer(70));
  fake_cuda_set_peer(1, 0, true);
  fake_cuda_set_peer(0, 1, false);
  EXPECT_TRUE(gpu().supports_peer(1));
}

TEST_F(CudaMemoryTest, MemoryIsMadeReachableForNetworkCardsWhereItCanBe) {
  (void)create();
  EXPECT_TRUE(fake_cuda_last_was_rdma_capable());
}

TEST_F(CudaMemoryTest, ADeviceThatIsLostIsNotAskedAgain) {
  const Handle handle = create();
  EventHandle event = 0;
  MemoryInfo info;
  ASSERT_EQ(gpu().record(0, 0, &event), Status::kOk);
  fake_cuda_break(kErrorIllegalAddress);
  EXPECT_EQ(gpu().synchronize(0), Status::kFault);
  fake_cuda_heal();  // as a driver might that forgets
  const uint64_t calls = fake_cuda_calls(nullptr);
  EXPECT_EQ(gpu().memory_info(0, &info), Status::kFault);
  EXPECT_EQ(gpu().query(event), Status::kFault);
  EXPECT_EQ(gpu().release(handle), Status::kFault);
  EXPECT_EQ(fake_cuda_calls(nullptr), calls);
}

TEST_F(CudaMemoryTest, ADriverThatAnswersFaultsToTheEndCrashesNothing) {
  fake_cuda_break(kErrorIllegalAddress);
  Address address = 0;
  EXPECT_EQ(gpu().alloc_segment(0, kPage, &address), Status::kFault);
  EXPECT_FALSE(gpu().supports_peer(1));
  EXPECT_FALSE(CudaMemory::open(driver(), 0).has_value());
  fake_cuda_heal();
}

TEST_F(CudaMemoryTest, ThreadsMayCallAtOnce) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  std::vector<std::set<EventHandle>> held(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) call_everything();
      for (int event = 0; event < 20; ++event) {
        EventHandle handle = 0;
        EXPECT_EQ(gpu().record(0, 1, &handle), Status::kOk);
        held[static_cast<size_t>(i)].insert(handle);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<EventHandle> all;
  for (const auto& handles : held) all.insert(handles.begin(), handles.end());
  EXPECT_EQ(all.size(), 20u * kThreads) << "no event has two users";
  EXPECT_EQ(gpu().calls(), 7u * 50 * kThreads);
  EXPECT_EQ(fake_cuda_alive().used_bytes, 0u);
}

class CudaMemoryOpenTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda_reset(2, kWorldBytes);
    driver_ = DriverApi::load(fake_cuda_path()).value();
  }
  DriverApi driver_;
};

TEST_F(CudaMemoryOpenTest, KeepsTheContextWhileItLives) {
  auto memory = CudaMemory::open(driver_, 1).value();
  EXPECT_EQ(memory->ordinal(), 1u);
  EXPECT_EQ(fake_cuda_alive().contexts, 1u);
  Handle handle = 0;
  EXPECT_EQ(memory->create(0, kPage, &handle), Status::kInvalidValue) << "another device's";
  EXPECT_EQ(memory->create(1, kPage, &handle), Status::kOk);
  EXPECT_EQ(memory->release(handle), Status::kOk);
  memory.reset();
  EXPECT_EQ(fake_cuda_alive().contexts, 0u);
}

TEST_F(CudaMemoryOpenTest, ADeviceThatIsNotThereIsToldSo) {
  const auto memory = CudaMemory::open(driver_, 2);
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, Code::kNotFound);
  EXPECT_THAT(memory.error().message, testing::HasSubstr("a device below 2"));
  EXPECT_THAT(memory.error().message, testing::HasSubstr("found 2"));
}

TEST_F(CudaMemoryOpenTest, ADeviceThatDoesNotStartIsToldByItsAnswerAndLeavesNothing) {
  fake_cuda_fail_nth("cuDevicePrimaryCtxRetain", 1, kErrorOutOfMemory);
  auto memory = CudaMemory::open(driver_, 0);
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, Code::kUnsupported);
  EXPECT_THAT(memory.error().message, testing::HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2)"));
  fake_cuda_fail_nth("cuMemGetAllocationGranularity", 1, kErrorUnknown);
  memory = CudaMemory::open(driver_, 0);
  EXPECT_FALSE(memory.has_value());
  EXPECT_EQ(fake_cuda_alive().contexts, 0u);
}

TEST_F(CudaMemoryOpenTest, ADeviceWithoutVirtualMemoryHasSegments) {
  fake_cuda_set_virtual_memory(0, false);
  const auto memory = CudaMemory::open(driver_, 0).value();
  EXPECT_FALSE(memory->supports_virtual_memory());
  EXPECT_EQ(memory->granularity_bytes(), kPage);
  Address address = 0;
  Handle handle = 0;
  EXPECT_EQ(memory->reserve(kPage, &address), Status::kNotSupported);
  EXPECT_EQ(memory->create(0, kPage, &handle), Status::kNotSupported);
  EXPECT_EQ(memory->map(kPage, kPage, 1), Status::kNotSupported);
  EXPECT_EQ(memory->calls(), 0u);
  ASSERT_EQ(memory->alloc_segment(0, 3 * kMiB, &address), Status::kOk);
  EXPECT_EQ(memory->free_segment(0, address), Status::kOk);
}

TEST_F(CudaMemoryOpenTest, TwoOfOneDeviceAreApart) {
  auto one = CudaMemory::open(driver_, 0).value();
  const auto two = CudaMemory::open(driver_, 0).value();
  EventHandle event = 0;
  ASSERT_EQ(one->record(0, 0, &event), Status::kOk);
  EXPECT_EQ(fake_cuda_alive().contexts, 2u);
  one.reset();
  EXPECT_EQ(fake_cuda_alive().events, 0u) << "even one that was not destroyed";
  EXPECT_EQ(two->synchronize(0), Status::kOk);
}

}  // namespace
}  // namespace vram::gpu::cuda
