#include "show/plan/model_report.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/testing/paths.hpp"
#include "plan/model/families.hpp"

#include <gtest/gtest.h>

namespace vram::show {
namespace {

ModelReport report_of(plan::Split split) {
  ModelReport report;
  report.path = "config.json";
  const std::string path = data_path("plan/models/gpt2.json");
  report.model = plan::parse_model(read_whole(path, kMiB).value()).value();
  report.task = {.precision = plan::Precision::kFp32, .batch = 4, .sequence = 512};
  report.cards = {{"first", 24 * kGiB}, {"second", 24 * kGiB}};
  report.split = plan::plan_split(report.model, report.task, {split, report.cards}).value();
  return report;
}

TEST(ModelJson, EveryFieldIsDocumentedAndEveryDocumentedFieldExists) {
  const auto json = Json::parse(model_json(report_of(plan::Split::kShard)));
  EXPECT_EQ(json["schema"], "vram.model_plan/1");
  testing::expect_documented("vram.model_plan/1", json,
                             {{"model_plan", ""},
                              {"model", "/model"},
                              {"task", "/task"},
                              {"model_card", "/cards/0"},
                              {"model_phase", "/cards/0/phases/0"},
                              {"sharding", "/shardings/0"},
                              {"kept", "/kept_by_first_layer/0"}});
}

TEST(ModelJson, PhasesAddUpToTheirTotals) {
  const auto json = Json::parse(model_json(report_of(plan::Split::kPipeline)));
  ASSERT_EQ(json["cards"].size(), 2u);
  for (const Json& card : json["cards"]) {
    uint64_t peak = 0;
    for (const Json& phase : card["phases"]) {
      uint64_t sum = 0;
      for (const auto& [name, value] : phase.items())
        if (name != "name" && name != "total_bytes") sum += value.get<uint64_t>();
      EXPECT_EQ(phase["total_bytes"], sum);
      peak = std::max(peak, sum);
    }
    EXPECT_EQ(card["peak_bytes"], peak);
  }
}

TEST(ModelText, NamesTheCardsOfEachSplit) {
  const auto text = [](plan::Split split) { return draw_model(report_of(split), {}); };
  EXPECT_NE(text(plan::Split::kPipeline).find("layers 0"), std::string::npos);
  EXPECT_NE(text(plan::Split::kShard).find("SHARDING"), std::string::npos);
  EXPECT_NE(text(plan::Split::kTensor).find("matrix."), std::string::npos);
}

}  // namespace
}  // namespace vram::show
