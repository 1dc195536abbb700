#include "pool/holders.hpp"

#include "base/bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace vram::pool {
namespace {

using testing::ElementsAre;

// As "3 x 4096", in bytes.
MATCHER_P2(Is, count, size_bytes, "") {  // NOLINT(readability-identifier-naming): as matchers are
  return arg.count == static_cast<uint64_t>(count) &&
         (arg.count == 0 || arg.size_bytes == static_cast<uint64_t>(size_bytes));
}

Holders holders_of(const std::vector<uint64_t>& sizes) {
  HolderSearch search;
  for (const uint64_t size : sizes) search.weigh(size);
  for (const uint64_t size : sizes) search.count(size);
  return search.most();
}

TEST(Holders, AreRankedByWhatOneSizeHoldsInAll) {
  std::vector<uint64_t> sizes(12, 512 * kMiB);
  sizes.insert(sizes.end(), {kGiB, 4096, kGiB, 4096, kGiB});
  EXPECT_THAT(holders_of(sizes),
              ElementsAre(Is(12, 512 * kMiB), Is(3, kGiB), Is(2, 4096), Is(0, 0), Is(0, 0)));
}

TEST(Holders, OfNoBlocksThereAreNone) {
  EXPECT_THAT(holders_of({}), ElementsAre(Is(0, 0), Is(0, 0), Is(0, 0), Is(0, 0), Is(0, 0)));
}

TEST(Holders, AreTheFiveThatHoldMost) {
  EXPECT_THAT(holders_of({512, 1024, 1536, 2048, 2560, 3072, 3584}),
              ElementsAre(Is(1, 3584), Is(1, 3072), Is(1, 2560), Is(1, 2048), Is(1, 1536)));
}

// One block each of 5,000 sizes, together 12.5 million units of 512 bytes, and five sizes that hold
// 0.6 to 1.0 million units each, in any order.
TEST(Holders, AreFoundAmongThousandsOfSizes) {
  std::vector<uint64_t> sizes;
  for (uint64_t i = 1; i <= 5000; ++i) sizes.push_back(i * 512);
  for (uint64_t i = 0; i < 5; ++i) {
    sizes.insert(sizes.end(), 100, (6000 + 1000 * i) * 512);
  }
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    std::ranges::shuffle(sizes, random);
    EXPECT_THAT(holders_of(sizes),
                ElementsAre(Is(100, 10000 * 512), Is(100, 9000 * 512), Is(100, 8000 * 512),
                            Is(100, 7000 * 512), Is(100, 6000 * 512)));
  }
}

}  // namespace
}  // namespace vram::pool
