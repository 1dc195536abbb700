// Each rule of memory.hpp, kept and broken by hand, on everything that claims to be a gpu::Memory.
#include "base/bytes.hpp"
#include "gpu/testing/page.hpp"
#include "gpu/testing/worlds.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace vram::gpu {
namespace {

template <typename World>
class MemoryRulesTest : public testing::Test {
 protected:
  auto& gpu() { return world_.memory(); }
  Address reserve(uint64_t pages) {
    Address address = 0;
    EXPECT_EQ(gpu().reserve(pages * kPage, &address), Status::kOk);
    return address;
  }
  Handle create(uint64_t pages) {
    Handle handle = 0;
    EXPECT_EQ(gpu().create(0, pages * kPage, &handle), Status::kOk);
    return handle;
  }
  void map(Address address, uint64_t pages, Handle handle) {
    EXPECT_EQ(gpu().map(address, pages * kPage, handle), Status::kOk);
  }
  void map_open(Address address, uint64_t pages, Handle handle) {
    map(address, pages, handle);
    EXPECT_EQ(gpu().set_access(address, pages * kPage, 0), Status::kOk);
  }
  EventHandle record(StreamHandle stream) {
    EventHandle event = 0;
    EXPECT_EQ(gpu().record(0, stream, &event), Status::kOk);
    return event;
  }
  uint64_t used_bytes() {
    MemoryInfo info;
    EXPECT_EQ(gpu().memory_info(0, &info), Status::kOk);
    EXPECT_EQ(info.total_bytes, kWorldBytes);
    return info.total_bytes - info.free_bytes;
  }
  World world_;
};

struct WorldNames {
  template <typename World>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming): gtest's name
    return std::is_same_v<World, SimWorld> ? "Sim" : "FakeCuda";
  }
};
using Worlds = testing::Types<SimWorld, FakeCudaWorld>;
TYPED_TEST_SUITE(MemoryRulesTest, Worlds, WorldNames);

TYPED_TEST(MemoryRulesTest, HandlesAndSegmentsShareTheDevicesMemory) {
  Address address = 0;
  Handle handle = 0;
  EXPECT_EQ(this->gpu().device_count(), 2u);
  EXPECT_EQ(this->gpu().granularity_bytes(), kPage);
  EXPECT_EQ(this->gpu().alloc_segment(0, 40 * kMiB, &address), Status::kOk);
  EXPECT_EQ(this->gpu().create(0, 26 * kMiB, &handle), Status::kOutOfMemory);
  EXPECT_EQ(handle, 0u) << "out-parameters are written only with kOk";
  EXPECT_EQ(this->gpu().create(0, 24 * kMiB, &handle), Status::kOk);
  EXPECT_EQ(this->used_bytes(), 64 * kMiB);
  const Address segment = address;
  EXPECT_EQ(this->gpu().alloc_segment(0, 1, &address), Status::kOutOfMemory);
  EXPECT_EQ(address, segment);
  EXPECT_EQ(this->gpu().release(handle), Status::kOk);
  EXPECT_EQ(this->gpu().free_segment(0, segment), Status::kOk);
  EXPECT_EQ(this->used_bytes(), 0u);
}

TYPED_TEST(MemoryRulesTest, SegmentsAreFreedOnceAndAtTheirStart) {
  Address address = 0;
  ASSERT_EQ(this->gpu().alloc_segment(0, 20 * kMiB, &address), Status::kOk);
  EXPECT_EQ(this->gpu().free_segment(0, address + kPage), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().free_segment(1, address), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().free_segment(0, 0), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().free_segment(0, address), Status::kOk);
  EXPECT_EQ(this->gpu().free_segment(0, address), Status::kInvalidValue);
  EXPECT_EQ(this->used_bytes(), 0u);
}

TYPED_TEST(MemoryRulesTest, SegmentsOfOddSizesTakeWholePages) {
  Address address = 0;
  ASSERT_EQ(this->gpu().alloc_segment(0, 2 * kMiB + 1, &address), Status::kOk);
  EXPECT_EQ(this->used_bytes(), 4 * kMiB);
}

TYPED_TEST(MemoryRulesTest, SizesOffTheGranularityAreInvalid) {
  Address address = 0;
  Handle handle = 0;
  EXPECT_EQ(this->gpu().reserve(kPage + 512, &address), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().reserve(0, &address), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().create(0, 3 * kMiB, &handle), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().create(0, 0, &handle), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().alloc_segment(0, 0, &address), Status::kInvalidValue);
}

TYPED_TEST(MemoryRulesTest, DevicesThatAreNotThereAreInvalid) {
  Address address = 0;
  Handle handle = 0;
  EventHandle event = 0;
  MemoryInfo info;
  EXPECT_EQ(this->gpu().alloc_segment(2, kPage, &address), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().create(2, kPage, &handle), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().memory_info(2, &info), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().record(2, 0, &event), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().synchronize(2), Status::kInvalidValue);
}

TYPED_TEST(MemoryRulesTest, MappingsStayInsideAReservationAndApart) {
  const Address range = this->reserve(4);
  const Handle two = this->create(2);
  const Handle other = this->create(2);
  EXPECT_EQ(this->gpu().map(range + 3 * kPage, 2 * kPage, two), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().map(range - kPage, 2 * kPage, two), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().map(range + 512, 2 * kPage, two), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().map(range, kPage, two), Status::kInvalidValue) << "a part of a handle";
  EXPECT_EQ(this->gpu().map(range, 2 * kPage, 999), Status::kInvalidValue);
  this->map(range + kPage, 2, two);
  EXPECT_EQ(this->gpu().map(range, 2 * kPage, other), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().map(range + kPage, 2 * kPage, other), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().map(range + 2 * kPage, 2 * kPage, other), Status::kInvalidValue);
}

TYPED_TEST(MemoryRulesTest, OnlyWholeMappingsAreUnmappedOrOpened) {
  const Address range = this->reserve(8);
  this->map(range, 2, this->create(2));
  this->map(range + 2 * kPage, 1, this->create(1));
  this->map(range + 4 * kPage, 1, this->create(1));
  for (const bool is_unmap : {false, true}) {
    const auto call = [&](Address at, uint64_t pages) {
      return is_unmap ? this->gpu().unmap(at, pages * kPage)
                      : this->gpu().set_access(at, pages * kPage, 0);
    };
    EXPECT_EQ(call(range, 1), Status::kInvalidValue);
    EXPECT_EQ(call(range + kPage, 1), Status::kInvalidValue);
    EXPECT_EQ(call(range + kPage, 2), Status::kInvalidValue);
    EXPECT_EQ(call(range, 5), Status::kInvalidValue) << "across a hole";
    EXPECT_EQ(call(range, 0), Status::kInvalidValue);
    EXPECT_EQ(call(range, 3), Status::kOk) << "two that adjoin";
  }
  EXPECT_EQ(this->gpu().unmap(range, 3 * kPage), Status::kInvalidValue) << "twice";
}

TYPED_TEST(MemoryRulesTest, UnreserveTakesTheWholeEmptyRange) {
  const Address range = this->reserve(4);
  this->map(range + kPage, 1, this->create(1));
  EXPECT_EQ(this->gpu().unreserve(range, 4 * kPage), Status::kInvalidValue) << "it holds something";
  ASSERT_EQ(this->gpu().unmap(range + kPage, kPage), Status::kOk);
  EXPECT_EQ(this->gpu().unreserve(range, 2 * kPage), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().unreserve(range + kPage, 3 * kPage), Status::kInvalidValue);
  EXPECT_EQ(this->gpu().unreserve(range, 4 * kPage), Status::kOk);
  EXPECT_EQ(this->gpu().unreserve(range, 4 * kPage), Status::kInvalidValue);
}

TYPED_TEST(MemoryRulesTest, AddressSpaceIsNotMemory) {
  const Address range = this->reserve(10 * kWorldBytes / kPage);
  EXPECT_EQ(range % kPage, 0u);
  EXPECT_EQ(this->used_bytes(), 0u);
  this->map_open(range + 10 * kWorldBytes - kPage, 1, this->create(1));
  EXPECT_EQ(this->used_bytes(), kPage);
}

TYPED_TEST(MemoryRulesTest, AHandleIsReleasedOnceAndLivesOnWhileMapped) {
  const Address range = this->reserve(2);
  const Handle handle = this->create(1);
  this->map(range, 1, handle);
  this->map(range + kPage, 1, handle);  // one handle, two places
  EXPECT_EQ(this->gpu().release(handle), Status::kOk);
  EXPECT_EQ(this->gpu().release(handle), Status::kInvalidValue);
  EXPECT_EQ(this->used_bytes(), kPage);
  ASSERT_EQ(this->gpu().unmap(range, kPage), Status::kOk);
  EXPECT_EQ(this->gpu().map(range, kPage, handle), Status::kInvalidValue) << "released";
  EXPECT_EQ(this->used_bytes(), kPage);
  ASSERT_EQ(this->gpu().unmap(range + kPage, kPage), Status::kOk);
  EXPECT_EQ(this->used_bytes(), 0u);
}

TYPED_TEST(MemoryRulesTest, OneHandleInTwoPlacesIsOneMemory) {
  const Address range = this->reserve(8);
  const Handle handle = this->create(1);
  this->map_open(range, 1, handle);
  this->map_open(range + 4 * kPage, 1, handle);
  this->world_.write(range + 100, 7);
  EXPECT_EQ(this->world_.read(range + 4 * kPage + 100), 7u);
  this->world_.write(range + 4 * kPage + 100, 8);
  EXPECT_EQ(this->world_.read(range + 100), 8u);
}

TYPED_TEST(MemoryRulesTest, ContentsMoveWithTheirHandleAndAccessDoesNot) {
  const Address range = this->reserve(2);
  const Handle handle = this->create(1);
  this->map_open(range, 1, handle);
  this->world_.write(range, 7);
  ASSERT_EQ(this->gpu().unmap(range, kPage), Status::kOk);
  EXPECT_FALSE(this->world_.can_touch(range));
  this->map(range + kPage, 1, handle);
  EXPECT_FALSE(this->world_.can_touch(range + kPage)) << "until set_access";
  ASSERT_EQ(this->gpu().set_access(range + kPage, kPage, 0), Status::kOk);
  EXPECT_EQ(this->world_.read(range + kPage), 7u);
}

TYPED_TEST(MemoryRulesTest, AccessCrossesMappingsThatAdjoin) {
  const Address range = this->reserve(2);
  this->map_open(range, 1, this->create(1));
  this->map_open(range + kPage, 1, this->create(1));
  this->world_.write(range + kPage - 4, 0x1234'5678'9abc'def0);
  EXPECT_EQ(this->world_.read(range + kPage - 4), 0x1234'5678'9abc'def0u);
}

TYPED_TEST(MemoryRulesTest, ASegmentHoldsBytesUntilItIsFreed) {
  Address segment = 0;
  ASSERT_EQ(this->gpu().alloc_segment(0, 4 * kMiB, &segment), Status::kOk);
  this->world_.write(segment + 4 * kMiB - 8, 5);
  EXPECT_EQ(this->world_.read(segment + 4 * kMiB - 8), 5u);
  ASSERT_EQ(this->gpu().free_segment(0, segment), Status::kOk);
  EXPECT_FALSE(this->world_.can_touch(segment));
}

TYPED_TEST(MemoryRulesTest, AnEventHappensWhenTheWorkBeforeItIsDone) {
  const EventHandle idle = this->record(1);
  this->world_.queue(1);
  const EventHandle busy = this->record(1);
  this->world_.queue(1);
  const EventHandle busier = this->record(1);
  EXPECT_EQ(this->gpu().query(idle), Status::kOk);
  EXPECT_EQ(this->gpu().query(busy), Status::kNotReady);
  EXPECT_EQ(this->gpu().wait(busy), Status::kOk);
  EXPECT_EQ(this->gpu().query(busy), Status::kOk);
  EXPECT_EQ(this->gpu().query(busier), Status::kNotReady);
  EXPECT_EQ(this->gpu().synchronize(0), Status::kOk);
  EXPECT_EQ(this->gpu().query(busier), Status::kOk);
}

TYPED_TEST(MemoryRulesTest, AStreamWaitsForAnother) {
  this->world_.queue(1);
  const EventHandle producer = this->record(1);
  const EventHandle before = this->record(2);
  ASSERT_EQ(this->gpu().stream_wait(0, 2, producer), Status::kOk);
  const EventHandle after = this->record(2);
  EXPECT_EQ(this->gpu().query(before), Status::kOk);
  EXPECT_EQ(this->gpu().query(after), Status::kNotReady);
  ASSERT_EQ(this->gpu().wait(producer), Status::kOk);
  EXPECT_EQ(this->gpu().query(after), Status::kOk);
}

TYPED_TEST(MemoryRulesTest, AStreamGoesOnWaitingWhenTheEventIsDestroyed) {
  this->world_.queue(1);
  const EventHandle producer = this->record(1);
  ASSERT_EQ(this->gpu().stream_wait(0, 2, producer), Status::kOk);
  ASSERT_EQ(this->gpu().destroy(producer), Status::kOk);
  const EventHandle reused = this->record(3);  // perhaps the same event, elsewhere
  const EventHandle after = this->record(2);
  EXPECT_EQ(this->gpu().query(reused), Status::kOk);
  EXPECT_EQ(this->gpu().query(after), Status::kNotReady);
}

TYPED_TEST(MemoryRulesTest, FreeingASegmentWaitsForTheDevice) {
  Address segment = 0;
  ASSERT_EQ(this->gpu().alloc_segment(0, kPage, &segment), Status::kOk);
  this->world_.queue(3);
  const EventHandle event = this->record(3);
  EXPECT_EQ(this->gpu().query(event), Status::kNotReady);
  ASSERT_EQ(this->gpu().free_segment(0, segment), Status::kOk);
  EXPECT_EQ(this->gpu().query(event), Status::kOk);
}

TYPED_TEST(MemoryRulesTest, EventsThatAreNotThereAreInvalid) {
  const EventHandle event = this->record(0);
  EXPECT_EQ(this->gpu().destroy(event), Status::kOk);
  EXPECT_EQ(this->gpu().destroy(event), Status::kInvalidValue);
  const EventHandle next = this->record(0);
  for (const EventHandle wrong : {event, EventHandle{0}, EventHandle{12345}}) {
    EXPECT_EQ(this->gpu().query(wrong), Status::kInvalidValue);
    EXPECT_EQ(this->gpu().wait(wrong), Status::kInvalidValue);
    EXPECT_EQ(this->gpu().stream_wait(0, 1, wrong), Status::kInvalidValue);
  }
  EXPECT_EQ(this->gpu().query(next), Status::kOk);
}

}  // namespace
}  // namespace vram::gpu
