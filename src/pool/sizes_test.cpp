#include "pool/sizes.hpp"

#include <gtest/gtest.h>

namespace vram::pool {
namespace {

TEST(SizesTest, SmallRequestsGoToEightClassesInEachPowerOfTwo) {
  EXPECT_EQ(round_size(0), 512u);
  EXPECT_EQ(round_size(1), 512u);
  EXPECT_EQ(round_size(513), 1024u);
  EXPECT_EQ(round_size(8 * kKiB + 1), 9 * kKiB);
  EXPECT_EQ(round_size(16 * kKiB + 1), 18 * kKiB);
  EXPECT_EQ(round_size(kMiB - 1), kMiB);
}

TEST(SizesTest, LargeRequestsLoseLessThan512Bytes) {
  EXPECT_EQ(round_size(kMiB + 1), kMiB + 512);
  EXPECT_EQ(round_size(3 * kGiB - 511), 3 * kGiB);
}

TEST(SizesTest, NoSmallRequestLosesMoreThanAnEighthOr511Bytes) {
  for (uint64_t bytes = 1; bytes <= kMiB; bytes += 97) {
    const uint64_t rounded = round_size(bytes);
    ASSERT_GE(rounded, bytes);
    ASSERT_EQ(rounded % 512, 0u);
    ASSERT_TRUE(rounded - bytes <= bytes / 8 || rounded - bytes < 512) << bytes;
    ASSERT_EQ(round_size(rounded), rounded) << bytes;
  }
}

}  // namespace
}  // namespace vram::pool
