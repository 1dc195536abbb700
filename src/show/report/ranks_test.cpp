#include "show/report/ranks.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/text.hpp"
#include "show/testing/lines.hpp"
#include "show/testing/sample_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::show {
namespace {

using ::testing::HasSubstr;
using testing::line_with;
using testing::lines_of;
using ::testing::Not;
using testing::unwrapped;

TEST(RanksText, SaysWhichRankIsWorstAndWhy) {
  const std::string text = draw_ranks(testing::sample_ranks());
  EXPECT_THAT(unwrapped(text), HasSubstr("2 recordings of 4 ranks"));
  EXPECT_THAT(unwrapped(text), HasSubstr("rank 3 has the least headroom, 57 GiB"));
  EXPECT_THAT(line_with(text, "layers.7.mlp · activation"), HasSubstr("+3 GiB"));
  EXPECT_THAT(line_with(text, "step  "), HasSubstr("step 1"));
  EXPECT_THAT(line_with(text, "node2"), HasSubstr("worst"));
  EXPECT_THAT(line_with(text, "node1"), HasSubstr("median"));
}

TEST(RanksText, OfManyStepsThoseThatDifferMostAreShown) {
  const std::string text = draw_ranks(testing::sample_ranks(), {.top = 1});
  EXPECT_THAT(unwrapped(text), HasSubstr("the 1 in which ranks differ most of 2 steps"));
  EXPECT_THAT(text, Not(HasSubstr("step 0")));
}

TEST(RanksText, RanksThatAreAlikeAndASmallerDevice) {
  explain::RankReport report = testing::sample_ranks();
  report.category.reset();
  report.site.reset();
  report.step.reset();
  EXPECT_THAT(draw_ranks(report), HasSubstr("nothing: its device is smaller"));
  report.worst_by = explain::RankMeasure::kNone;
  EXPECT_THAT(draw_ranks(report), HasSubstr("none: all peaks are the same"));
}

TEST(RanksText, FilesAreNamed) {
  EXPECT_THAT(line_with(draw_ranks(testing::sample_ranks()), "node2"),
              HasSubstr("run.rank3.vtrace"));
  explain::Report other = testing::sample_report();
  other.path = "runs/other.vtrace";
  for (const int columns : {60, 80, 100, 120}) {
    const std::string text = draw_files({testing::sample_report(), other}, {.columns = columns});
    EXPECT_THAT(unwrapped(text), HasSubstr("FILES 2 recordings, not of one program"));
    EXPECT_THAT(line_with(text, "er.vtrace"), HasSubstr("15 GiB"));
    EXPECT_THAT(line_with(text, "pickle.xz"), HasSubstr("15 GiB"));
    for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), columns) << line;
  }
}

TEST(RanksText, FitsEveryWidthItAccepts) {
  for (int columns = 60; columns <= 120; ++columns) {
    for (const std::string& line :
         lines_of(draw_ranks(testing::sample_ranks(), {.columns = columns})))
      EXPECT_LE(display_width(line), columns) << line;
  }
}

Json sample_ranks_json() { return Json::parse(ranks_json(testing::sample_ranks())); }

TEST(RanksJson, SaysWhichRankIsWorstAndWhy) {
  const Json json = sample_ranks_json();
  EXPECT_EQ(json["schema"], "vram.ranks/1");
  EXPECT_EQ(json["worst"]["rank"], 3);
  EXPECT_EQ(json["worst"]["by"], "headroom");
  EXPECT_EQ(json["worst"]["median_rank"], 0);
  EXPECT_EQ(json["worst"]["category"]["name"], "activation");
  EXPECT_EQ(json["steps"][1]["peak_bytes"][1], 20 * testing::kSampleGiB);
  EXPECT_EQ(json["steps"][0]["worst_rank"], 0);
}

TEST(RanksJson, UnknownIsNull) {
  explain::RankReport report;
  report.ranks.emplace_back();
  report.steps = {{"step 0", {std::nullopt}, 0}};
  const Json json = Json::parse(ranks_json(report));
  EXPECT_TRUE(json["worst"].is_null());
  EXPECT_TRUE(json["world_size"].is_null());
  EXPECT_TRUE(json["ranks"][0]["headroom_bytes"].is_null());
  EXPECT_TRUE(json["ranks"][0]["host"].is_null());
  EXPECT_TRUE(json["steps"][0]["peak_bytes"][0].is_null());
}

TEST(RanksJson, EveryFieldIsDocumentedAndEveryDocumentedFieldExists) {
  vram::testing::expect_documented("vram.ranks/1", sample_ranks_json(),
                                   {{"ranks", ""},
                                    {"rank", "/ranks/0"},
                                    {"worst", "/worst"},
                                    {"difference", "/worst/site"},
                                    {"aligned_step", "/steps/0"}});
}

}  // namespace
}  // namespace vram::show
