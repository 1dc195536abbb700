// Each rule of copies.hpp, kept and broken by hand, on everything that claims to be gpu::Copies.
#include "base/bytes.hpp"
#include "gpu/copies.hpp"
#include "gpu/testing/fake_cuda.hpp"
#include "gpu/testing/page.hpp"
#include "gpu/testing/worlds.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace vram::gpu {
namespace {

template <typename World>
class CopiesRulesTest : public testing::Test {
 protected:
  auto& gpu() { return world_.memory(); }
  auto& copies() { return world_.copies(); }
  // Two pages next to each other, of two handles.
  Address two_pages() {
    Address range = 0;
    EXPECT_EQ(gpu().reserve(2 * kPage, &range), Status::kOk);
    for (const Address at : {range, range + kPage}) {
      Handle handle = 0;
      EXPECT_EQ(gpu().create(0, kPage, &handle), Status::kOk);
      EXPECT_EQ(gpu().map(at, kPage, handle), Status::kOk);
      EXPECT_EQ(gpu().set_access(at, kPage, 0), Status::kOk);
    }
    return range;
  }
  StreamHandle stream() {
    StreamHandle made = 0;
    EXPECT_EQ(copies().create_stream(0, &made), Status::kOk);
    return made;
  }
  World world_;
};

using Worlds = testing::Types<SimWorld, FakeCudaWorld>;
TYPED_TEST_SUITE(CopiesRulesTest, Worlds);

TYPED_TEST(CopiesRulesTest, BytesComeOutAsTheyWentInAcrossMappings) {
  const Address range = this->two_pages();
  const StreamHandle stream = this->stream();
  const std::array<uint64_t, 3> in = {1, 2, 3};
  ASSERT_EQ(this->copies().copy_in(0, stream, range + kPage - 8, in.data(), 24), Status::kOk);
  EXPECT_EQ(this->world_.read(range + kPage), 2u);
  std::array<uint64_t, 3> out{};
  ASSERT_EQ(this->copies().copy_out(0, stream, out.data(), range + kPage - 8, 24), Status::kOk);
  EXPECT_EQ(out, in);
  ASSERT_EQ(this->copies().copy(0, stream, range + 16, range + kPage - 8, 24), Status::kOk);
  EXPECT_EQ(this->world_.read(range + 16), 1u);
  EXPECT_EQ(this->world_.read(range + 32), 3u);
  EXPECT_EQ(this->copies().destroy_stream(stream), Status::kOk);
}

TYPED_TEST(CopiesRulesTest, FillsWriteWholeWordsAndNothingElse) {
  const Address range = this->two_pages();
  for (uint64_t i = 0; i < 4; ++i) this->world_.write(range + 8 * i, 0x1111'1111'1111'1111);
  EXPECT_EQ(this->copies().fill(0, 0, range + 2, 7, 8), Status::kInvalidValue);
  EXPECT_EQ(this->copies().fill(0, 0, range, 7, 6), Status::kInvalidValue);
  ASSERT_EQ(this->copies().fill(0, 0, range + 4, 0xabcd'ef01, 12), Status::kOk);
  EXPECT_EQ(this->world_.read(range), 0xabcd'ef01'1111'1111u);
  EXPECT_EQ(this->world_.read(range + 8), 0xabcd'ef01'abcd'ef01u);
  EXPECT_EQ(this->world_.read(range + 16), 0x1111'1111'1111'1111u);
}

TYPED_TEST(CopiesRulesTest, WhatTheDeviceCannotTouchIsRefused) {
  const Address range = this->two_pages();
  uint64_t word = 5;
  EXPECT_NE(this->copies().copy_out(0, 0, &word, range + 2 * kPage - 4, 8), Status::kOk);
  EXPECT_NE(this->copies().copy_in(0, 0, range - 8, &word, 8), Status::kOk);
  EXPECT_NE(this->copies().copy(0, 0, range + 2 * kPage, range, 8), Status::kOk);
  EXPECT_EQ(word, 5u);
  EXPECT_EQ(this->copies().copy_in(2, 0, range, &word, 8), Status::kInvalidValue);
}

TYPED_TEST(CopiesRulesTest, WhatIsPinnedOrMadeIsGivenBackOnce) {
  void* host = nullptr;
  EXPECT_EQ(this->copies().pin(0, &host), Status::kInvalidValue);
  ASSERT_EQ(this->copies().pin(4096, &host), Status::kOk);
  std::memset(host, 1, 4096);
  EXPECT_EQ(this->copies().unpin(host), Status::kOk);
  EXPECT_EQ(this->copies().unpin(host), Status::kInvalidValue);
  const StreamHandle one = this->stream();
  const StreamHandle other = this->stream();
  EXPECT_NE(one, other);
  EXPECT_EQ(this->copies().destroy_stream(one), Status::kOk);
  EXPECT_EQ(this->copies().destroy_stream(one), Status::kInvalidValue);
  EXPECT_EQ(this->copies().destroy_stream(other), Status::kOk);
  EXPECT_EQ(this->copies().destroy_stream(0), Status::kInvalidValue);
}

TEST(SimCopies, FailOnRequestAndNeedBacking) {
  SimGpu gpu;
  Address segment = 0;
  ASSERT_EQ(gpu.alloc_segment(0, kPage, &segment), Status::kOk);
  EXPECT_EQ(gpu.fill(0, 0, segment, 1, 8), Status::kNotSupported);
  gpu.faults().fail_nth(Call::kPin, 1, Status::kOutOfMemory);
  void* host = nullptr;
  EXPECT_EQ(gpu.pin(8, &host), Status::kOutOfMemory);
  EXPECT_EQ(gpu.pinned_count(), 0u);
}

TEST(CudaCopies, NamesItsDeviceAndItsLastFailure) {
  FakeCudaWorld world;
  const auto names = cuda::names_of(cuda::CopyApi::load(fake_cuda_path()).value(), 1);
  EXPECT_EQ(names.name, "Fake GPU");
  EXPECT_EQ(names.uuid, "GPU-00000000-0000-0000-0000-000000000001");
  EXPECT_EQ(names.pci_id, "0000:02:00.0");
  EXPECT_EQ(world.copies().last_failure(), cuda::kSuccess);
  fake_cuda_fail_nth("cuMemsetD32Async", 1, cuda::kErrorIllegalAddress);
  EXPECT_EQ(world.copies().fill(0, 0, 4096, 1, 8), Status::kFault);
  EXPECT_EQ(world.copies().last_failure(), cuda::kErrorIllegalAddress);
  Handle handle = 0;
  fake_cuda_fail_nth("cuMemCreate", 1, cuda::kErrorOutOfMemory);
  EXPECT_EQ(world.memory().create(0, kPage, &handle), Status::kOutOfMemory);
  EXPECT_EQ(world.memory().last_failure(), cuda::kErrorOutOfMemory);
}

}  // namespace
}  // namespace vram::gpu
