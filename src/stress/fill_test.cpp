// Patterns over all memory: good memory passes, and what is broken on purpose is found where it is.
#include "stress/fill.hpp"

#include "base/bytes.hpp"
#include "stress/held.hpp"
#include "stress/patterns.hpp"
#include "stress/testing/bad_gpu.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace vram::stress {
namespace {

constexpr uint64_t kFilledBytes = 40 * kMiB;
constexpr uint64_t kLeave = 2 * kMiB;
constexpr int64_t kLong = 7'000'000;  // of the stepping clock: each pattern several times

class FillTest : public testing::Test {
 protected:
  FillReport fill(int64_t length_ns = kLong) {
    auto card = card_on(gpu_);
    StepClock clock;
    const auto now = clock.function();
    const Budget budget("fill", now, nullptr, length_ns);
    FillReport report = run_fill(card, {.leave_bytes = kLeave, .seed = 8}, budget, {}, ledger_);
    failures_ = card.failures();
    bad_ = ledger_.take();
    EXPECT_EQ(gpu_.used_bytes(0), 0u);
    EXPECT_EQ(gpu_.pinned_count(), 0u);
    EXPECT_EQ(gpu_.stream_count(), 0u);
    std::string why;
    EXPECT_TRUE(gpu_.validate(&why)) << why;
    return report;
  }
  // A sixteenth of the card, in whole pages.
  static constexpr uint64_t kPiece = 4 * kMiB;
  BadGpu gpu_{kFilledBytes};
  Ledger ledger_;
  BadWords bad_;
  std::vector<CallFailure> failures_;
};

TEST_F(FillTest, GoodMemoryPasses) {
  const FillReport report = fill();
  EXPECT_EQ(bad_.count, 0u);
  EXPECT_TRUE(failures_.empty());
  EXPECT_EQ(report.free_bytes, kFilledBytes);
  EXPECT_EQ(report.obtained_bytes, kFilledBytes - kLeave);
  EXPECT_EQ(report.handles, 10u);  // nine of 4 MiB, one of what is left
  EXPECT_EQ(report.covered_bytes, report.obtained_bytes);
  ASSERT_GT(report.passes.size(), std::size(kPatterns));
  std::set<std::string> complete;
  uint64_t written = 0;
  uint64_t compared = 0;
  for (const Pass& pass : report.passes) {
    written += pass.written_bytes;
    compared += pass.compared_bytes;
    if (!pass.is_complete) continue;
    if (!pass.is_sampled) complete.insert(pass.pattern);
    const bool is_inverted = pass.pattern == "moving inversions";
    EXPECT_EQ(pass.written_bytes, (is_inverted ? 3 : 1) * report.obtained_bytes) << pass.pattern;
    if (!pass.is_sampled) {
      EXPECT_EQ(pass.compared_bytes, (is_inverted ? 2 : 1) * report.obtained_bytes) << pass.pattern;
    } else {
      EXPECT_LT(pass.compared_bytes, report.obtained_bytes / 2) << pass.pattern;
      EXPECT_GT(pass.compared_bytes, 0u) << pass.pattern;
    }
  }
  EXPECT_EQ(complete.size(), std::size(kPatterns));
  EXPECT_EQ(report.written_bytes, written);
  EXPECT_EQ(report.compared_bytes, compared);
}

TEST_F(FillTest, ABitThatSticksIsFoundWhereItIs) {
  const Place place{.handle_number = 3, .offset_bytes = 12'345, .bit = 6};
  gpu_.stick(place);
  (void)fill();
  ASSERT_GT(bad_.count, 0u);
  const uint64_t bit_of_word = 12'345 % 8 * 8 + 6;
  EXPECT_EQ(bad_.by_bit[bit_of_word], bad_.count) << "no other bit is wrong";
  std::set<std::string> patterns;
  for (const BadWord& word : bad_.first) {
    EXPECT_EQ(word.address, gpu_.address_of(place) / 8 * 8);
    EXPECT_EQ(word.handle, gpu_.handle_of(3));
    EXPECT_EQ(word.offset_bytes, 12'345u / 8 * 8);
    EXPECT_EQ(word.bits(), uint64_t{1} << bit_of_word);
    patterns.insert(word.pattern);
  }
  EXPECT_TRUE(patterns.contains("0x00"));
  EXPECT_FALSE(patterns.contains("0xFF")) << "the bit is 1 there";
}

class FillPlaceTest : public FillTest, public testing::WithParamInterface<uint64_t> {};

// Wherever it is.
TEST_P(FillPlaceTest, ABitThatSticksIsFoundAtItsAddress) {
  std::mt19937_64 random(GetParam());
  const Place place{.handle_number = 1 + random() % 9,
                    .offset_bytes = random() % kPiece,
                    .bit = static_cast<uint32_t>(random() % 8)};
  gpu_.stick(place);
  (void)fill();
  ASSERT_GT(bad_.count, 0u);
  for (const BadWord& word : bad_.first) {
    EXPECT_EQ(word.address, gpu_.address_of(place) / 8 * 8);
    EXPECT_EQ(word.bits(), uint64_t{1} << (place.offset_bytes % 8 * 8 + place.bit));
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, FillPlaceTest, testing::Range<uint64_t>(1, 7));

TEST_F(FillTest, ABitThatFlipsOnceIsFoundOnce) {
  // The first pattern is written in as many calls as there are chunks; of them the first is read.
  const Place place{.handle_number = 1, .offset_bytes = 4096, .bit = 0};
  gpu_.flip(place, 10);
  const FillReport report = fill();
  ASSERT_EQ(bad_.count, 1u);
  const BadWord& word = bad_.first.front();
  EXPECT_EQ(word.pattern, "own address");
  EXPECT_EQ(word.expected, word.address);
  EXPECT_EQ(word.address, gpu_.address_of(place));
  EXPECT_EQ(word.found, word.expected ^ 1);
  EXPECT_EQ(report.passes.front().bad_words, 1u);
}

TEST_F(FillTest, ABitThatFlipsInTheChunkThatIsCopiedIsFound) {
  // The first pattern takes ten writes; the next one begins with the chunk that is copied.
  gpu_.flip({.handle_number = 1, .offset_bytes = 4096, .bit = 0}, 11);
  const FillReport report = fill();
  ASSERT_EQ(bad_.count, 1u);
  EXPECT_EQ(bad_.first.front().pattern, to_string(kPatterns[1]));
  EXPECT_EQ(report.passes[1].bad_words, 1u);
}

TEST_F(FillTest, AnAddressLineThatSticksIsFoundByAddresses) {
  gpu_.stick_address_line(5, 64 * kKiB);
  (void)fill(3'000'000);
  ASSERT_GT(bad_.count, 0u);
  bool is_seen_by_addresses = false;
  for (const BadWord& word : bad_.first) {
    EXPECT_EQ(word.handle, gpu_.handle_of(5));
    if (word.pattern != "own address") continue;
    is_seen_by_addresses = true;
    EXPECT_EQ(word.expected, word.address);
    const uint64_t offset_found = word.found - (word.address - word.offset_bytes);
    EXPECT_EQ(offset_found ^ word.offset_bytes, 64 * kKiB);
  }
  EXPECT_TRUE(is_seen_by_addresses);
}

TEST_F(FillTest, TakesWhatFragmentsLeave) {
  gpu::Handle other = 0;
  ASSERT_EQ(gpu_.create(0, 38 * kMiB, &other), Status::kOk);
  auto card = card_on(gpu_);
  Held held(card, 16 * kMiB);
  held.take_all_but(0, [] { return false; });
  EXPECT_EQ(held.bytes(), 2 * kMiB);
}

TEST_F(FillTest, GivesBackWhenOthersNeedIt) {
  auto card = card_on(gpu_);
  Held held(card, kPiece);
  held.take_all_but(8 * kMiB, [] { return false; });
  EXPECT_EQ(held.bytes(), 32 * kMiB);
  EXPECT_EQ(held.give_back_for(8 * kMiB), 0u);
  gpu::Handle other = 0;
  ASSERT_EQ(gpu_.create(0, 6 * kMiB, &other), Status::kOk);
  EXPECT_EQ(held.give_back_for(8 * kMiB), 8 * kMiB);
  EXPECT_EQ(held.bytes(), 24 * kMiB);
  EXPECT_EQ(held.chunks().size(), 6u);
}

TEST_F(FillTest, EndsWhenItsTimeIsOver) {
  const FillReport report = fill(200'000);  // twenty looks at the clock
  EXPECT_LE(report.passes.size(), 2u);
  EXPECT_FALSE(report.passes.empty());
  EXPECT_FALSE(report.passes.back().is_complete);
}

TEST(Patterns, AreWhatTheirNamesSay) {
  std::vector<uint64_t> words(3);
  write_pattern(Pattern::kAddress, 0, 4096, words);
  EXPECT_EQ(words, (std::vector<uint64_t>{4096, 4104, 4112}));
  write_pattern(Pattern::kWalking, 62, 4096, words);
  EXPECT_EQ(words, (std::vector<uint64_t>{uint64_t{1} << 62, uint64_t{1} << 63, 1}));
  write_pattern(Pattern::kTens, 0, 4096, words);
  EXPECT_EQ(words[2], 0xaaaa'aaaa'aaaa'aaaau);
  std::vector<uint64_t> other(3);
  write_pattern(Pattern::kRandom, 1, 0, words);
  write_pattern(Pattern::kRandom, 2, 0, other);
  EXPECT_NE(words, other);
  write_pattern(Pattern::kRandom, 1, 4096, other);
  EXPECT_EQ(words, other) << "the same in every chunk";
}

TEST(Patterns, BadWordsAreNamedByTheirPlace) {
  std::vector<uint64_t> words = {4096, 4104, 4113};
  std::vector<std::pair<uint64_t, uint64_t>> bad;
  const auto add = [&](uint64_t at, uint64_t expected) { bad.emplace_back(at, expected); };
  find_bad_words(words, {}, 4096, add);
  EXPECT_EQ(bad, (std::vector<std::pair<uint64_t, uint64_t>>{{2, 4112}}));
  bad.clear();
  const std::vector<uint64_t> expected = {4096, 0, 4113};
  find_bad_words(words, expected, 0, add);
  EXPECT_EQ(bad, (std::vector<std::pair<uint64_t, uint64_t>>{{1, 0}}));
}

}  // namespace
}  // namespace vram::stress
