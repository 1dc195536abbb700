// Contents: what is written through one address is read through another, and nothing else is.
#include "base/bytes.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "gpu/testing/page.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace vram::gpu {
namespace {

SimOptions with_bytes(bool poison_on_unmap = false) {
  SimOptions options;
  options.devices = {{64 * kMiB, kUnlimited}, {64 * kMiB, kUnlimited}};
  options.backing = true;
  options.poison_on_unmap = poison_on_unmap;
  return options;
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
