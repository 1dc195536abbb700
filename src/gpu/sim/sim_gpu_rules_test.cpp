// What the simulated GPU has beyond the rules of memory.hpp (memory_rules_test.cpp): limits, two
// devices at once, where segments go.
#include "base/bytes.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "gpu/testing/page.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vram::gpu {
namespace {

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

TEST_F(SimGpuRulesTest, AMappingDoesNotCrossReservationsThatAdjoin) {
  const Address range = reserve(4);
  const Address next = reserve(4);
  ASSERT_EQ(next, range + 4 * kPage) << "adjoining, and still two";
  const Handle two = create(2);
  EXPECT_EQ(gpu_.map(range + 3 * kPage, 2 * kPage, two), Status::kInvalidValue);
  EXPECT_EQ(gpu_.map(next, 2 * kPage, two), Status::kOk);
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

}  // namespace
}  // namespace vram::gpu
