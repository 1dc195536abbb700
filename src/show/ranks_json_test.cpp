#include "show/ranks_json.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "show/testing/sample_ranks.hpp"

#include <gtest/gtest.h>

namespace vram::show {
namespace {

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
