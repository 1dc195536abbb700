// Each rule of memory.hpp, kept and broken by hand.
#include "base/bytes.hpp"
#include "gpu/sim/sim_gpu.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vram::gpu {
namespace {

constexpr uint64_t kPage = kGranularityBytes;

SimOptions two_devices(uint64_t capacity_bytes) {
  SimOptions options;
  options.devices = {{capacity_bytes, kUnlimited}, {capacity_bytes, kUnlimited}};
  return options;
}

class SimGpuRulesTest : public testing::Test {
 protected:
  ~SimGpuRulesTest() override {
    std::string why;
    EXPECT_TRUE(gpu_.validate(&why)) << why;
  }
  Address reserve(uint64_t pages) {
    Address address = 0;
    EXPECT_EQ(gpu_.reserve(pages * kPage, &address), Status::kOk);
    return address;
  }
  Handle create(uint64_t pages, uint32_t device = 0) {
    Handle handle = 0;
    EXPECT_EQ(gpu_.create(device, pages * kPage, &handle), Status::kOk);
    return handle;
  }
  void map(Address address, uint64_t pages, Handle handle) {
    EXPECT_EQ(gpu_.map(address, pages * kPage, handle), Status::kOk);
  }
  SimGpu gpu_{two_devices(64 * kMiB)};
};

TEST_F(SimGpuRulesTest, MemoryRunsOutAtTheCapacityOfEachDevice) {
  Address address = 0;
  Handle handle = 0;
  EXPECT_EQ(gpu_.alloc_segment(0, 40 * kMiB, &address), Status::kOk);
  EXPECT_EQ(gpu_.create(0, 26 * kMiB, &handle), Status::kOutOfMemory);
  EXPECT_EQ(handle, 0u) << "out-parameters are written only with kOk";
  EXPECT_EQ(gpu_.create(0, 24 * kMiB, &handle), Status::kOk);
  EXPECT_EQ(gpu_.used_bytes(0), 64 * kMiB);
  EXPECT_EQ(gpu_.alloc_segment(1, 64 * kMiB, &address), Status::kOk)
      << "the other device has its own";
  EXPECT_EQ(gpu_.alloc_segment(1, 1, &address), Status::kOutOfMemory);
}

TEST_F(SimGpuRulesTest, ALimitMayFallAndRise) {
  Address a = 0;
  Address b = 0;
  ASSERT_EQ(gpu_.alloc_segment(0, 20 * kMiB, &a), Status::kOk);
  gpu_.set_limit(0, 10 * kMiB);
  EXPECT_EQ(gpu_.alloc_segment(0, 2 * kMiB, &b), Status::kOutOfMemory);
  MemoryInfo info;
  ASSERT_EQ(gpu_.memory_info(0, &info), Status::kOk);
  EXPECT_EQ(info.free_bytes, 0u);
  EXPECT_EQ(info.total_bytes, 64 * kMiB);
  ASSERT_EQ(gpu_.free_segment(0, a), Status::kOk);
  EXPECT_EQ(gpu_.alloc_segment(0, 10 * kMiB, &b), Status::kOk);
  gpu_.set_limit(0, kUnlimited);
  ASSERT_EQ(gpu_.memory_info(0, &info), Status::kOk);
  EXPECT_EQ(info.free_bytes, 54 * kMiB);
  EXPECT_EQ(gpu_.peak_used_bytes(0), 20 * kMiB);
}

TEST_F(SimGpuRulesTest, SegmentsAreFreedOnceAndAtTheirStart) {
  Address address = 0;
  ASSERT_EQ(gpu_.alloc_segment(0, 20 * kMiB, &address), Status::kOk);
  EXPECT_EQ(gpu_.free_segment(0, address + kPage), Status::kInvalidValue);
  EXPECT_EQ(gpu_.free_segment(1, address), Status::kInvalidValue);
  EXPECT_EQ(gpu_.free_segment(0, address), Status::kOk);
  EXPECT_EQ(gpu_.free_segment(0, address), Status::kInvalidValue);
  EXPECT_EQ(gpu_.used_bytes(0), 0u);
}

TEST_F(SimGpuRulesTest, SegmentsOfOddSizesTakeWholePages) {
  Address address = 0;
  ASSERT_EQ(gpu_.alloc_segment(0, 2 * kMiB + 1, &address), Status::kOk);
  EXPECT_EQ(gpu_.used_bytes(0), 4 * kMiB);
}

TEST_F(SimGpuRulesTest, SmallSegmentsShareAPageUntilTheLastIsFreed) {
  std::vector<Address> addresses(6);
  for (Address& address : addresses)
    ASSERT_EQ(gpu_.alloc_segment(0, 500'000, &address), Status::kOk);
  EXPECT_EQ(gpu_.used_bytes(0), 2 * kPage) << "four fit in a page";
  Address elsewhere = 0;
  ASSERT_EQ(gpu_.alloc_segment(1, 512, &elsewhere), Status::kOk);
  EXPECT_EQ(gpu_.used_bytes(1), kPage) << "devices share none";
  Address again = 0;
  ASSERT_EQ(gpu_.free_segment(0, addresses[1]), Status::kOk);
  ASSERT_EQ(gpu_.alloc_segment(0, 400'000, &again), Status::kOk);
  EXPECT_EQ(again, addresses[1]);
  addresses[1] = again;
  for (const Address address : addresses) ASSERT_EQ(gpu_.free_segment(0, address), Status::kOk);
  EXPECT_EQ(gpu_.used_bytes(0), 0u);
}

TEST_F(SimGpuRulesTest, SizesOffTheGranularityAreInvalid) {
  Address address = 0;
  Handle handle = 0;
  EXPECT_EQ(gpu_.reserve(kPage + 512, &address), Status::kInvalidValue);
  EXPECT_EQ(gpu_.reserve(0, &address), Status::kInvalidValue);
  EXPECT_EQ(gpu_.create(0, 3 * kMiB, &handle), Status::kInvalidValue);
  EXPECT_EQ(gpu_.create(0, 0, &handle), Status::kInvalidValue);
  EXPECT_EQ(gpu_.alloc_segment(0, 0, &address), Status::kInvalidValue);
}

TEST_F(SimGpuRulesTest, DevicesThatAreNotThereAreInvalid) {
  Address address = 0;
  Handle handle = 0;
  EventHandle event = 0;
  MemoryInfo info;
  EXPECT_EQ(gpu_.alloc_segment(2, kPage, &address), Status::kInvalidValue);
  EXPECT_EQ(gpu_.create(2, kPage, &handle), Status::kInvalidValue);
  EXPECT_EQ(gpu_.memory_info(2, &info), Status::kInvalidValue);
  EXPECT_EQ(gpu_.record(2, 0, &event), Status::kInvalidValue);
  EXPECT_EQ(gpu_.synchronize(2), Status::kInvalidValue);
}

TEST_F(SimGpuRulesTest, MappingsStayInsideOneReservationAndApart) {
  const Address range = reserve(4);
  const Address next = reserve(4);
  ASSERT_EQ(next, range + 4 * kPage) << "adjoining, and still two";
  const Handle two = create(2);
  const Handle other = create(2);
  EXPECT_EQ(gpu_.map(range + 3 * kPage, 2 * kPage, two), Status::kInvalidValue);
  EXPECT_EQ(gpu_.map(range - kPage, 2 * kPage, two), Status::kInvalidValue);
  EXPECT_EQ(gpu_.map(range + 512, 2 * kPage, two), Status::kInvalidValue);
  EXPECT_EQ(gpu_.map(range, kPage, two), Status::kInvalidValue) << "a part of a handle";
  EXPECT_EQ(gpu_.map(range, 2 * kPage, 999), Status::kInvalidValue);
  map(range + kPage, 2, two);
  EXPECT_EQ(gpu_.map(range, 2 * kPage, other), Status::kInvalidValue);
  EXPECT_EQ(gpu_.map(range + 2 * kPage, 2 * kPage, other), Status::kInvalidValue);
  map(next, 2, other);
}

TEST_F(SimGpuRulesTest, OnlyWholeMappingsAreUnmappedOrOpened) {
  const Address range = reserve(8);
  map(range, 2, create(2));
  map(range + 2 * kPage, 1, create(1));
  map(range + 4 * kPage, 1, create(1));
  for (const bool is_unmap : {false, true}) {
    const auto call = [&](Address at, uint64_t pages) {
      return is_unmap ? gpu_.unmap(at, pages * kPage) : gpu_.set_access(at, pages * kPage, 0);
    };
    EXPECT_EQ(call(range, 1), Status::kInvalidValue);
    EXPECT_EQ(call(range + kPage, 1), Status::kInvalidValue);
    EXPECT_EQ(call(range + kPage, 2), Status::kInvalidValue);
    EXPECT_EQ(call(range, 5), Status::kInvalidValue) << "across a hole";
    EXPECT_EQ(call(range, 0), Status::kInvalidValue);
    EXPECT_EQ(call(range, 3), Status::kOk) << "two that adjoin";
  }
  EXPECT_EQ(gpu_.unmap(range, 3 * kPage), Status::kInvalidValue) << "twice";
}

TEST_F(SimGpuRulesTest, UnreserveTakesTheWholeEmptyRange) {
  const Address range = reserve(4);
  map(range + kPage, 1, create(1));
  EXPECT_EQ(gpu_.unreserve(range, 4 * kPage), Status::kInvalidValue) << "something is mapped";
  ASSERT_EQ(gpu_.unmap(range + kPage, kPage), Status::kOk);
  EXPECT_EQ(gpu_.unreserve(range, 2 * kPage), Status::kInvalidValue);
  EXPECT_EQ(gpu_.unreserve(range + kPage, 3 * kPage), Status::kInvalidValue);
  EXPECT_EQ(gpu_.unreserve(range, 4 * kPage), Status::kOk);
  EXPECT_EQ(gpu_.unreserve(range, 4 * kPage), Status::kInvalidValue);
}

TEST_F(SimGpuRulesTest, AHandleIsReleasedOnceAndLivesOnWhileMapped) {
  const Address range = reserve(2);
  const Handle handle = create(1);
  map(range, 1, handle);
  map(range + kPage, 1, handle);  // one handle, two places
  EXPECT_EQ(gpu_.release(handle), Status::kOk);
  EXPECT_EQ(gpu_.release(handle), Status::kInvalidValue);
  EXPECT_EQ(gpu_.used_bytes(0), kPage);
  ASSERT_EQ(gpu_.unmap(range, kPage), Status::kOk);
  EXPECT_EQ(gpu_.map(range, kPage, handle), Status::kInvalidValue) << "released";
  EXPECT_EQ(gpu_.used_bytes(0), kPage);
  ASSERT_EQ(gpu_.unmap(range + kPage, kPage), Status::kOk);
  EXPECT_EQ(gpu_.used_bytes(0), 0u);
}

TEST_F(SimGpuRulesTest, SegmentsGoWhereTheyArePutAndOnlyOnce) {
  const Address known = 0x7fe3'4000'0000;
  Address address = 0;
  gpu_.place_next_segment(known);
  ASSERT_EQ(gpu_.alloc_segment(0, 20 * kMiB, &address), Status::kOk);
  EXPECT_EQ(address, known);
  gpu_.place_next_segment(known + kPage);  // in use: the model decides
  const Address predicted = gpu_.predict_segment(2 * kMiB);
  ASSERT_EQ(gpu_.alloc_segment(0, 2 * kMiB, &address), Status::kOk);
  EXPECT_EQ(address, predicted);
  EXPECT_EQ(address, known + 20 * kMiB);
}

TEST_F(SimGpuRulesTest, EventsThatAreNotThereAreInvalid) {
  EventHandle event = 0;
  ASSERT_EQ(gpu_.record(0, 0, &event), Status::kOk);
  EXPECT_EQ(gpu_.destroy(event), Status::kOk);
  EXPECT_EQ(gpu_.destroy(event), Status::kInvalidValue);
  EXPECT_EQ(gpu_.query(event), Status::kInvalidValue);
  EXPECT_EQ(gpu_.wait(event), Status::kInvalidValue);
  EXPECT_EQ(gpu_.stream_wait(0, 1, event), Status::kInvalidValue);
}

}  // namespace
}  // namespace vram::gpu
