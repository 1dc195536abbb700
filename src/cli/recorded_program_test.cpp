#include "cli/recorded_program.hpp"

#include "base/bytes.hpp"
#include "cli/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::cli {
namespace {

using ::testing::HasSubstr;

TEST(Cards, AreFoundByAnyWayOfWritingTheirName) {
  for (const char* text : {"RTX 4090", "rtx4090", "NVIDIA GeForce RTX 4090", "rtx-4090"}) {
    const auto card = find_card(text);
    ASSERT_TRUE(card) << text;
    EXPECT_EQ(card->name, "RTX 4090");
    EXPECT_LT(card->allocator_bytes(), 24 * kGiB - 512 * kMiB);
    EXPECT_GT(card->allocator_bytes(), 22 * kGiB);
  }
}

// 150,109,880,320 bytes on the machine that the recordings were made on.
TEST(Cards, OneThatWasMeasured) {
  const CardMemory card = find_card("H200").value();
  EXPECT_NEAR(static_cast<double>(card.program_bytes), 150'109'880'320.0, 1e6);
  EXPECT_EQ(card.allocator_bytes(), card.program_bytes - 765 * kMiB);
  EXPECT_EQ(card.source, "measured");
}

TEST(Cards, AMemorySizeLosesWhatDriverAndContextTake) {
  const CardMemory card = find_card("24GiB").value();
  EXPECT_EQ(card.name, "24 GiB");
  EXPECT_LT(card.allocator_bytes(), 24 * kGiB - 512 * kMiB);
  EXPECT_EQ(find_card("256MiB").value().allocator_bytes(), 0u);
}

TEST(Cards, UnknownNamesAreRefusedWithTheKnownOnes) {
  for (const char* text : {"RTX 9999", "A100", "24", "", "-1GiB"}) {
    const auto card = find_card(text);
    ASSERT_FALSE(card) << text;
    EXPECT_THAT(card.error().message, HasSubstr("A100 40GB")) << text;
    EXPECT_THAT(card.error().message, HasSubstr("24GiB"));
  }
}

Result<Capacity> capacity_of(std::vector<std::string> words) {
  CapacityOptions options;
  return parse_options(Manual{"replay", "", "", "", {}}, capacity_options(options),
                       std::move(words))
      .and_then([&] { return capacity_for(RecordedProgram{}, options); });
}

TEST(CapacityOptions, ANumberWithoutAUnitIsRefused) {
  for (const char* text : {"16", "1.5", "16 "}) {
    const auto capacity = capacity_of({"--capacity", text});
    ASSERT_FALSE(capacity) << text;
    EXPECT_THAT(capacity.error().message, HasSubstr("a size with its unit, such as 16GiB"));
  }
  EXPECT_EQ(capacity_of({"--capacity", "16B"})->bytes, 16u);
  EXPECT_EQ(capacity_of({"--capacity", "16GiB"})->bytes, 16 * kGiB);
  EXPECT_FALSE(capacity_of({"--capacity", "unlimited"})->bytes);
}

TEST(CapacityOptions, ACardLosesTheContextThatWasNamed) {
  const auto usual = capacity_of({"--gpu", "RTX 4090"});
  ASSERT_TRUE(usual);
  EXPECT_THAT(usual->card, HasSubstr("RTX 4090"));
  const auto named = capacity_of({"--gpu", "RTX 4090", "--context", "1GiB"});
  ASSERT_TRUE(named);
  EXPECT_EQ(*usual->bytes - *named->bytes, (1024 - 450) * kMiB);
}

TEST(CapacityOptions, ThatContradictEachOtherAreRefused) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--capacity", "16GiB", "--gpu", "T4"},
        {"--capacity", "16GiB", "--context", "1GiB"},
        {"--context", "1GiB"},
        {"--gpu", "T4", "--context", "500"},
        {"--gpu", "T4", "--context", "15GiB"}})
    EXPECT_FALSE(capacity_of(words)) << testing::PrintToString(words);
}

}  // namespace
}  // namespace vram::cli
