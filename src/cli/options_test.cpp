#include "cli/options.hpp"

#include "base/bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  bool loud = false;
  std::string size;
  std::vector<std::string> files;
  std::vector<std::string> spices;

  Result<> parse(std::vector<std::string> words) {
    const Manual manual{"cook", "", "FILE... [OPTIONS]", "", {}};
    const std::vector<Option> options = {{"FILE", "FILE", "", &files},
                                         {"--loud", "", "", &loud},
                                         {"-s,--size", "N", "", &size},
                                         {"--spice", "NAME", "", &spices}};
    return parse_options(manual, options, std::move(words));
  }
  std::string error(std::vector<std::string> words) {
    const auto result = parse(std::move(words));
    return result ? "" : result.error().message;
  }
};

TEST(Options, FillTheirTargets) {
  Parsed parsed;
  ASSERT_TRUE(parsed.parse({"a", "--loud", "-s", "12", "b"}));
  EXPECT_TRUE(parsed.loud);
  EXPECT_EQ(parsed.size, "12");
  EXPECT_THAT(parsed.files, ElementsAre("a", "b"));
}

TEST(Options, TakeValuesAfterAnEqualsSign) {
  Parsed parsed;
  ASSERT_TRUE(parsed.parse({"--size=7", "a"}));
  EXPECT_EQ(parsed.size, "7");
}

TEST(Options, AfterTwoDashesEverythingIsAnArgument) {
  Parsed parsed;
  ASSERT_TRUE(parsed.parse({"--", "--loud"}));
  EXPECT_FALSE(parsed.loud);
  EXPECT_THAT(parsed.files, ElementsAre("--loud"));
}

TEST(Options, TheLastOfTwoValuesCounts) {
  Parsed parsed;
  ASSERT_TRUE(parsed.parse({"a", "--size", "1", "--size", "2"}));
  EXPECT_EQ(parsed.size, "2");
}

TEST(Options, AnOptionOfSeveralValuesIsNamedForEach) {
  Parsed parsed;
  ASSERT_TRUE(parsed.parse({"--spice", "salt", "a", "--spice=mace", "b"}));
  EXPECT_THAT(parsed.spices, ElementsAre("salt", "mace"));
  EXPECT_THAT(parsed.files, ElementsAre("a", "b"));
}

TEST(Options, ErrorsNameTheWordAndTheNextStep) {
  EXPECT_THAT(Parsed().error({}), HasSubstr("missing FILE; usage: vram cook FILE... [OPTIONS]"));
  EXPECT_THAT(Parsed().error({"a", "--lout"}),
              HasSubstr("unknown option '--lout', did you mean '--loud'?"));
  EXPECT_THAT(Parsed().error({"a", "--colour"}),
              HasSubstr("unknown option '--colour'; 'vram cook --help'"));
  EXPECT_THAT(Parsed().error({"a", "--size"}), HasSubstr("--size needs a value"));
}

struct Kitchen {
  std::optional<uint64_t> weight;
  std::optional<uint32_t> count;
  std::chrono::nanoseconds rest = std::chrono::seconds(1);
  enum class Heat { kLow, kHigh } heat = Heat::kLow;
  std::vector<uint32_t> tables;
  std::vector<std::string> read;

  std::vector<Option> options() {
    return {{"--weight", "SIZE", "", value(weight, parse_bytes)},
            {"--count", "N", "", value(count, parse_number<uint32_t>)},
            {"--rest", "TIME", "", value(rest, parse_period)},
            {"--heat", "HOW", "", choice<Heat>(heat, {{"low", Heat::kLow}, {"high", Heat::kHigh}})},
            {"TABLE", "", "", value(tables, parse_number<uint32_t>), true}};
  }
  std::string error(std::vector<std::string> words) {
    const Manual manual{"cook", "", "[TABLE...] [OPTIONS]", "", {}};
    const auto parsed = parse_options(manual, options(), std::move(words));
    return parsed ? "" : parsed.error().message;
  }
};

TEST(TypedOptions, KeepTheirDefaultsUnlessTheyAreGiven) {
  Kitchen kitchen;
  ASSERT_EQ(kitchen.error({}), "");
  EXPECT_FALSE(kitchen.weight);
  EXPECT_FALSE(kitchen.count);
  EXPECT_EQ(kitchen.rest, std::chrono::seconds(1));
  EXPECT_EQ(kitchen.heat, Kitchen::Heat::kLow);
  EXPECT_THAT(kitchen.tables, testing::IsEmpty());
}

TEST(TypedOptions, ReceiveValuesOfTheirTypes) {
  Kitchen kitchen;
  ASSERT_EQ(kitchen.error({"3", "--weight", "1.5KiB", "--count=4294967295", "--rest", "250ms",
                           "--heat", "high", "7"}),
            "");
  EXPECT_EQ(kitchen.weight, 1536U);
  EXPECT_EQ(kitchen.count, 4294967295U);
  EXPECT_EQ(kitchen.rest, std::chrono::milliseconds(250));
  EXPECT_EQ(kitchen.heat, Kitchen::Heat::kHigh);
  EXPECT_THAT(kitchen.tables, ElementsAre(3, 7));
}

TEST(TypedOptions, OfTwoValuesOnlyTheLastIsConverted) {
  Kitchen kitchen;
  ASSERT_EQ(kitchen.error({"--count", "many", "--count", "2"}), "");
  EXPECT_EQ(kitchen.count, 2U);
}

TEST(TypedOptions, ErrorsSayWhatWasExpectedAndFound) {
  const auto error = [](const std::vector<std::string>& words) { return Kitchen().error(words); };
  EXPECT_EQ(error({"--weight", "big"}),
            "--weight: expected a size such as 16GiB, 512MiB or 1048576, found 'big'");
  EXPECT_EQ(error({"--count", "-1"}), "--count takes a whole number, found '-1'");
  EXPECT_EQ(error({"--count", "1x"}), "--count takes a whole number, found '1x'");
  EXPECT_EQ(error({"--count", ""}), "--count takes a whole number, found ''");
  EXPECT_EQ(error({"--rest", "0.05"}), "--rest takes at least 0.1 seconds, found '0.05'");
  EXPECT_EQ(error({"--heat", "warm"}), "--heat: expected low or high, found 'warm'");
  EXPECT_EQ(error({"1", "x"}), "TABLE takes a whole number, found 'x'");
}

// The largest number of its type, and one that no type holds.
TEST(TypedOptions, NumbersThatAreTooLargeAreNotCutOff) {
  const char* const kExpected = "--count takes a whole number up to 4294967295, found '";
  for (const char* text : {"4294967296", "18446744073709551616", "99999999999999999999999"})
    EXPECT_EQ(Kitchen().error({"--count", text}), std::string(kExpected) + text + "'");
}

TEST(TypedOptions, ChoicesAreTheWordsThatAreAccepted) {
  const std::vector<Option> options = Kitchen().options();
  EXPECT_THAT(options[3].value.choices, ElementsAre("low", "high"));
  for (const std::string& word : options[3].value.choices)
    EXPECT_EQ(Kitchen().error({"--heat", word}), "");
}

TEST(ParseSize, WantsAUnit) {
  EXPECT_EQ(parse_size("--capacity", "16GiB").value(), uint64_t{16} << 30);
  EXPECT_EQ(parse_size("--capacity", "0").value(), 0U);
  EXPECT_EQ(parse_size("--capacity", "16").error().message,
            "--capacity takes a size with its unit, such as 16GiB or 512MiB, found '16'");
  EXPECT_FALSE(parse_size("--capacity", "99999999999TiB"));
}

}  // namespace
}  // namespace vram::cli
