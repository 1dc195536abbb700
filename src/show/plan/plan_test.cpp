#include "show/plan/plan.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"

#include <gtest/gtest.h>

namespace vram::show {
namespace {

// Four stages with outputs of a byte. Each keeps 10 bytes, so three checkpoints and one stage fit
// into 13.
plan::Chain four_stages() {
  plan::Chain chain;
  for (int i = 0; i < 4; ++i) {
    plan::Stage& stage = chain.stages.emplace_back();
    stage.name = "layers." + std::to_string(i);
    stage.output_bytes = 1;
    stage.forward_ns = 2;
    stage.forward_peak_bytes = 1;
    plan::Option& option = stage.options.emplace_back();
    option.name = "all";
    option.kept_bytes = 10;
    option.forward_ns = 2;
    option.backward_ns = 4;
    option.forward_peak_bytes = 10;
    option.backward_peak_bytes = 10;
  }
  return chain;
}

PlanSubject recorded_stages() {
  return {"step.vtrace", "", four_stages(), plan::RecordedStep{0, 41, 5, {"a note"}}};
}

Json parsed_plan(uint64_t budget_bytes) {
  const PlanSubject subject = recorded_stages();
  return Json::parse(plan_json(subject, plan::make_plan(subject.chain, budget_bytes).value()));
}

TEST(PlanJson, HasTheCostAndTheRegions) {
  const auto json = parsed_plan(13);
  EXPECT_EQ(json["schema"], "vram.plan/1");
  EXPECT_EQ(json["peak_bytes"], 13);
  EXPECT_EQ(json["time_ns"], 4 * 6 + 3 * 2);
  EXPECT_EQ(json["persistent_bound_ns"], json["time_ns"]);
  EXPECT_EQ(json["ideal_ns"], 24);
  EXPECT_EQ(json["ideal_peak_bytes"], 40);
  ASSERT_EQ(json["stages"].size(), 4u);
  EXPECT_EQ(json["stages"][0]["name"], "layers.0");
  EXPECT_EQ(json["stages"][0]["forward_runs"], 2);
  EXPECT_EQ(json["stages"][3]["forward_runs"], 1);
  // (k)(k)(k)k
  ASSERT_EQ(json["regions"].size(), 7u);
  EXPECT_TRUE(json["regions"][0]["option"].is_null());
  EXPECT_TRUE(json["regions"][0]["parent"].is_null());
  EXPECT_EQ(json["regions"][1]["option"], 0);
  EXPECT_EQ(json["regions"][1]["parent"], 0);
  EXPECT_EQ(json["regions"][6]["first"], 3);
  EXPECT_TRUE(json["regions"][6]["parent"].is_null());
}

TEST(PlanJson, SaysWhyASolverHasNoSchedule) {
  const auto json = parsed_plan(13);
  const auto& keep_all = json["attempts"][4];
  EXPECT_EQ(keep_all["solver"], "keep_all");
  EXPECT_TRUE(keep_all["time_ns"].is_null());
  EXPECT_EQ(keep_all["why_not"],
            "keep_all needs at least 40 B (40 bytes); the budget is 13 B (13 bytes)");
  EXPECT_TRUE(json["attempts"][0]["why_not"].is_null());
}

TEST(PlanJson, EveryFieldIsDocumentedAndEveryDocumentedFieldExists) {
  testing::expect_documented("vram.plan/1", parsed_plan(13),
                             {{"plan", ""},
                              {"attempt", "/attempts/0"},
                              {"planned_stage", "/stages/0"},
                              {"region", "/regions/0"},
                              {"recorded_step", "/recorded"}});
}

TEST(PlanJson, HasOneRowForEachBudgetOfASweep) {
  const PlanSubject subject = recorded_stages();
  const auto plans = plan::sweep(subject.chain, 3).value();
  const auto json = Json::parse(sweep_json(subject, plans));
  EXPECT_EQ(json["stages"][3], "layers.3");
  ASSERT_EQ(json["plans"].size(), 3u);
  EXPECT_EQ(json["plans"][2]["forward_runs"], (std::vector{1, 1, 1, 1}));
  EXPECT_EQ(json["plans"][2]["peak_bytes"], 40);
  EXPECT_GT(json["plans"][0]["time_ns"], json["plans"][2]["time_ns"]);
  EXPECT_EQ(json["recorded"]["pass_peak_bytes"], 41);
  testing::expect_documented("vram.plan_sweep/1", json,
                             {{"sweep", ""}, {"swept_plan", "/plans/0"}});
}

}  // namespace
}  // namespace vram::show
