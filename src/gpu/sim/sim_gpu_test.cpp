// The virtual clock: what calls cost, when work ends, and what waits for what.
#include "gpu/sim/sim_gpu.hpp"

#include "base/bytes.hpp"
#include "gpu/testing/page.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

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
  SimGpu gpu({.devices = {{kGiB, kUnlimited}}});
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
  SimGpu gpu({.devices = {SimDevice{}, SimDevice{}}});
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

// What the simulated GPU has beyond the rules of memory.hpp (memory_rules_test.cpp): limits, two
// devices at once, where segments go.
SimOptions two_devices(uint64_t capacity_bytes) {
  return {.devices = {{capacity_bytes, kUnlimited}, {capacity_bytes, kUnlimited}}};
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

// Contents: what is written through one address is read through another, and nothing else is.
SimOptions with_bytes(bool poison_on_unmap = false) {
  return {.devices = {{64 * kMiB, kUnlimited}, {64 * kMiB, kUnlimited}},
          .backing = true,
          .poison_on_unmap = poison_on_unmap};
}

std::vector<std::byte> bytes_of(uint8_t value, size_t count) {
  return std::vector<std::byte>(count, std::byte{value});
}

class SimGpuBytesTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(gpu_.reserve(8 * kPage, &range_), Status::kOk);
    ASSERT_EQ(gpu_.create(0, kPage, &handle_), Status::kOk);
  }
  std::vector<std::byte> read(Address address, size_t count, uint32_t device = 0) {
    std::vector<std::byte> out(count);
    EXPECT_EQ(gpu_.read(device, address, out), Status::kOk);
    return out;
  }
  void map(Address address, Handle handle) {
    ASSERT_EQ(gpu_.map(address, kPage, handle), Status::kOk);
    ASSERT_EQ(gpu_.set_access(address, kPage, 0), Status::kOk);
  }
  SimGpu gpu_{with_bytes()};
  Address range_ = 0;
  Handle handle_ = 0;
};

TEST_F(SimGpuBytesTest, NewMemoryIsPoison) {
  map(range_, handle_);
  EXPECT_EQ(read(range_, kPage), std::vector<std::byte>(kPage, kPoison));
  Address segment = 0;
  ASSERT_EQ(gpu_.alloc_segment(0, 4 * kMiB, &segment), Status::kOk);
  EXPECT_EQ(read(segment + 4 * kMiB - 8, 8), std::vector<std::byte>(8, kPoison));
}

TEST_F(SimGpuBytesTest, AReusedShareOfAPageIsPoisonAgain) {
  Address first = 0;
  Address second = 0;
  Address again = 0;
  ASSERT_EQ(gpu_.alloc_segment(0, 512, &first), Status::kOk);
  ASSERT_EQ(gpu_.alloc_segment(0, 512, &second), Status::kOk);
  ASSERT_EQ(gpu_.write(0, first, bytes_of(1, 512)), Status::kOk);
  ASSERT_EQ(gpu_.write(0, second, bytes_of(2, 512)), Status::kOk);
  ASSERT_EQ(gpu_.free_segment(0, first), Status::kOk);
  ASSERT_EQ(gpu_.alloc_segment(0, 512, &again), Status::kOk);
  ASSERT_EQ(again, first);
  EXPECT_EQ(read(again, 512), std::vector<std::byte>(512, kPoison));
  EXPECT_EQ(read(second, 512), bytes_of(2, 512));
}

TEST_F(SimGpuBytesTest, ContentsDoNotSurviveTheLastUnmapWhereSoAsked) {
  SimGpu strict(with_bytes(true));
  Address range = 0;
  Handle handle = 0;
  ASSERT_EQ(strict.reserve(2 * kPage, &range), Status::kOk);
  ASSERT_EQ(strict.create(0, kPage, &handle), Status::kOk);
  ASSERT_EQ(strict.map(range, kPage, handle), Status::kOk);
  ASSERT_EQ(strict.map(range + kPage, kPage, handle), Status::kOk);
  ASSERT_EQ(strict.set_access(range, 2 * kPage, 0), Status::kOk);
  ASSERT_EQ(strict.write(0, range, bytes_of(7, 4)), Status::kOk);
  std::vector<std::byte> out(4);
  ASSERT_EQ(strict.unmap(range, kPage), Status::kOk);
  ASSERT_EQ(strict.read(0, range + kPage, out), Status::kOk);
  EXPECT_EQ(out, bytes_of(7, 4)) << "it is mapped elsewhere";
  ASSERT_EQ(strict.unmap(range + kPage, kPage), Status::kOk);
  ASSERT_EQ(strict.map(range, kPage, handle), Status::kOk);
  ASSERT_EQ(strict.set_access(range, kPage, 0), Status::kOk);
  ASSERT_EQ(strict.read(0, range, out), Status::kOk);
  EXPECT_EQ(out, std::vector<std::byte>(4, kPoison));
}

TEST_F(SimGpuBytesTest, AccessCrossesMappingsThatAdjoin) {
  Handle other = 0;
  ASSERT_EQ(gpu_.create(0, kPage, &other), Status::kOk);
  map(range_, handle_);
  map(range_ + kPage, other);
  ASSERT_EQ(gpu_.write(0, range_ + kPage - 8, bytes_of(9, 16)), Status::kOk);
  EXPECT_EQ(read(range_ + kPage, 8), bytes_of(9, 8));
  EXPECT_EQ(read(range_ + kPage - 8, 8), bytes_of(9, 8));
}

TEST_F(SimGpuBytesTest, OutsideOfAMappingNothingIsCopied) {
  map(range_, handle_);
  std::vector<std::byte> out = bytes_of(3, 16);
  EXPECT_EQ(gpu_.write(0, range_ + kPage - 8, bytes_of(9, 16)), Status::kFault);
  EXPECT_EQ(read(range_ + kPage - 8, 8), std::vector<std::byte>(8, kPoison));
  EXPECT_EQ(gpu_.read(0, range_ + kPage - 8, out), Status::kFault);
  EXPECT_EQ(out, bytes_of(3, 16));
  ASSERT_EQ(gpu_.unmap(range_, kPage), Status::kOk);
  EXPECT_EQ(gpu_.read(0, range_, out), Status::kFault);
}

TEST_F(SimGpuBytesTest, AMappingIsUnreadableUntilTheDeviceGetsAccess) {
  std::vector<std::byte> out(8);
  ASSERT_EQ(gpu_.map(range_, kPage, handle_), Status::kOk);
  EXPECT_EQ(gpu_.read(0, range_, out), Status::kFault);
  ASSERT_EQ(gpu_.set_access(range_, kPage, 1), Status::kOk);  // a peer
  EXPECT_EQ(gpu_.read(0, range_, out), Status::kFault);
  ASSERT_EQ(gpu_.write(1, range_, bytes_of(5, 8)), Status::kOk);
  ASSERT_EQ(gpu_.set_access(range_, kPage, 0), Status::kOk);
  EXPECT_EQ(read(range_, 8), bytes_of(5, 8));
  EXPECT_EQ(read(range_, 8, 1), bytes_of(5, 8)) << "the peer keeps its access";
  ASSERT_EQ(gpu_.unmap(range_, kPage), Status::kOk);
  ASSERT_EQ(gpu_.map(range_, kPage, handle_), Status::kOk);
  EXPECT_EQ(gpu_.read(0, range_, out), Status::kFault) << "access went with the mapping";
}

TEST_F(SimGpuBytesTest, ASegmentIsItsDevicesAloneAndEndsWhereItEnds) {
  Address segment = 0;
  std::vector<std::byte> out(8);
  ASSERT_EQ(gpu_.alloc_segment(0, 3 * kMiB, &segment), Status::kOk);
  EXPECT_EQ(gpu_.write(0, segment + 3 * kMiB - 8, bytes_of(1, 8)), Status::kOk);
  EXPECT_EQ(gpu_.write(0, segment + 3 * kMiB - 7, bytes_of(1, 8)), Status::kFault);
  EXPECT_EQ(gpu_.read(1, segment, out), Status::kFault);
  ASSERT_EQ(gpu_.free_segment(0, segment), Status::kOk);
  EXPECT_EQ(gpu_.read(0, segment, out), Status::kFault);
}

TEST(SimGpuWithoutBytesTest, ContentsAreNotSupported) {
  SimGpu gpu;
  Address segment = 0;
  std::vector<std::byte> out(8);
  ASSERT_EQ(gpu.alloc_segment(0, kPage, &segment), Status::kOk);
  EXPECT_EQ(gpu.read(0, segment, out), Status::kNotSupported);
}

}  // namespace

}  // namespace vram::gpu
