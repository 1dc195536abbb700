#include "pool/oom.hpp"

#include "base/bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

namespace vram::pool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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

// 8 GiB, of which the pool has 6, other programs 1, and 1 is free; of the pool's 5.5 are in blocks,
// 0.5 free.
OomFacts some_facts() {
  return {.requested_bytes = 2 * kGiB,
          .largest_free_bytes = kGiB / 2,
          .free_bytes = kGiB / 2,
          .reserved_bytes = 6 * kGiB,
          .limit_bytes = UINT64_MAX,
          .device_free_bytes = kGiB,
          .device_total_bytes = 8 * kGiB,
          .holders = {Holder{kGiB, 3}, Holder{512 * kMiB, 4}, Holder{4096, 70'000}}};
}

std::string text_of(const OomFacts& facts, const OomScene& scene) {
  std::array<char, 2048> room{};
  const size_t length = write_oom_text(facts, scene, room);
  EXPECT_LT(length, room.size());
  return room.data();
}

TEST(OomText, SaysWhatWasAskedWhereTheMemoryIsAndWhatHelps) {
  EXPECT_EQ(text_of(some_facts(), {.device = 3, .allocated_bytes = kGiB * 11 / 2}),
            "GPU 3 is out of memory: 2.00 GiB were asked for, 512.00 MiB are missing.\n"
            "The device has 8.00 GiB: the pool has reserved 6.00 GiB, others hold 1.00 GiB, "
            "1.00 GiB are free.\n"
            "Of the pool's memory 5.50 GiB are in live blocks, 0 B are freed but in use by other "
            "streams, 512.00 MiB are free, the largest piece 512.00 MiB.\n"
            "The live blocks that hold most: 3 x 1.00 GiB, 4 x 512.00 MiB, 70000 x 4096 B.\n"
            "What would help:\n"
            "  - 512.00 MiB less in this program (6.7 % of what it would use): a smaller batch, "
            "checkpointing, lower precision\n");
}

TEST(OomText, ARecordingSaysWhoseTheBlocksAre) {
  EXPECT_THAT(
      text_of(some_facts(), {.recording = "run.rank1.vtrace"}),
      HasSubstr("70000 x 4096 B.\nWhose they are: vram report run.rank1.vtrace --at oom\n"));
}

TEST(OomText, OfAnEmptyPoolThereAreNoHolders) {
  OomFacts facts = some_facts();
  facts.holders = {};
  EXPECT_THAT(text_of(facts, {}), Not(HasSubstr("hold most")));
}

TEST(OomText, WhereEnoughIsFreeItSaysWhyThatCantBeUsed) {
  OomFacts facts = some_facts();
  facts.free_bytes = 2 * kGiB;
  EXPECT_THAT(text_of(facts, {}), HasSubstr("they are in the middle of their handles"));
}

}  // namespace

}  // namespace vram::pool
