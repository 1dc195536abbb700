#include "cli/options.hpp"

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

TEST(ParseNumber, WholeNumbersOnly) {
  EXPECT_EQ(parse_number("--top", "12").value(), 12U);
  EXPECT_EQ(parse_number("--top", "-1").error().message, "--top takes a whole number, found '-1'");
  EXPECT_FALSE(parse_number("--top", "1x"));
  EXPECT_FALSE(parse_number("--top", ""));
}

}  // namespace
}  // namespace vram::cli
