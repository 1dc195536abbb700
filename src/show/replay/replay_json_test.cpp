#include "show/replay/replay_json.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/time.hpp"
#include "show/testing/sample_replay.hpp"

#include <gtest/gtest.h>

namespace vram::show {
namespace {

ReplayReport with_oom() {
  ReplayReport report = testing::sample_replays();
  report.results.push_back(testing::sample_oom("torch:max_split_size_mb=128"));
  return report;
}

Json sample_replay_json() { return Json::parse(replay_json(with_oom())); }

TEST(ReplayJson, CarriesTheFigures) {
  const Json json = sample_replay_json();
  EXPECT_EQ(json["schema"], "vram.replay/1");
  EXPECT_EQ(json["results"].size(), 4U);
  const Json& own = json["results"][0];
  EXPECT_EQ(own["allocator"], "torch");
  EXPECT_EQ(own["model"], false);
  EXPECT_EQ(own["is_recorded"], true);
  EXPECT_EQ(own["completed"], true);
  EXPECT_EQ(own["peak_reserved_bytes"], 25 * kGiB);
  EXPECT_EQ(own["peak_active_bytes"], 16 * kGiB);
  EXPECT_EQ(own["peak_allocated_bytes"], 15 * kGiB + 512 * kMiB);
  EXPECT_EQ(own["peak_requested_bytes"], 15 * kGiB);
  EXPECT_DOUBLE_EQ(own["utilization"].get<double>(), 0.6);
  EXPECT_EQ(own["device_allocs"], 90);
  EXPECT_EQ(own["device_frees"], 12);
  EXPECT_EQ(own["driver_calls"][1]["name"], "cudaFree");
  EXPECT_EQ(own["driver_calls"][1]["count"], 12);
  EXPECT_EQ(own["curve"].size(), 100U);
  EXPECT_EQ(json["results"][2]["model"], true);
  EXPECT_EQ(json["results"][2]["model_note"], "checked against peaks measured on one GPU");
  EXPECT_EQ(json["results"][2]["stream_waits"], 7);
  EXPECT_EQ(json["recorded"], own);
}

TEST(ReplayJson, SaysWhereMemoryRanOut) {
  const Json result = sample_replay_json()["results"][3];
  EXPECT_EQ(result["completed"], false);
  const Json& oom = result["oom"];
  EXPECT_EQ(oom["event"], 4'711);
  EXPECT_EQ(oom["step"], 6);
  EXPECT_EQ(oom["time_ns"], 6 * kSignedSecondNs);
  EXPECT_EQ(oom["requested_bytes"], 2 * kGiB);
  EXPECT_EQ(oom["reserved_bytes"], 20 * kGiB);
  EXPECT_EQ(oom["allocated_bytes"], 15 * kGiB);
  EXPECT_EQ(oom["largest_free_bytes"], kGiB);
}

TEST(ReplayJson, UnknownIsNull) {
  ReplayReport report = testing::sample_replay();
  report.has_time = false;
  report.results[0].result.peak_reserved_bytes = 0;
  report.results.push_back(testing::sample_oom("torch"));
  report.results[1].oom_step.reset();
  const Json json = Json::parse(replay_json(report));
  for (const char* key : {"truncated_at_byte", "capacity_bytes", "duration_ns"})
    EXPECT_TRUE(json[key].is_null()) << key;
  for (const char* key :
       {"utilization", "oom", "min_capacity_bytes", "min_capacity_retries", "model_note"}) {
    EXPECT_TRUE(json["results"][0][key].is_null()) << key;
  }
  EXPECT_TRUE(json["results"][1]["oom"]["time_ns"].is_null());
  EXPECT_TRUE(json["results"][1]["oom"]["step"].is_null());
}

TEST(ReplayJson, NamesTheCapacityAndItsSource) {
  ReplayReport report = testing::sample_replay();
  EXPECT_EQ(Json::parse(replay_json(report))["capacity_source"], "unlimited");
  report.capacity_bytes = 16 * kGiB;
  report.capacity_source = CapacitySource::kAsked;
  EXPECT_EQ(Json::parse(replay_json(report))["capacity_source"], "option");
  report.capacity_source = CapacitySource::kRecorded;
  const Json json = Json::parse(replay_json(report));
  EXPECT_EQ(json["capacity_source"], "recording");
  EXPECT_EQ(json["capacity_bytes"], 16 * kGiB);
}

TEST(ReplayJson, EveryByteAndTimeFieldIsAnInteger) {
  vram::testing::expect_integers(sample_replay_json(), "");
}

TEST(ReplayJson, EveryFieldIsDocumentedAndEveryDocumentedFieldExists) {
  vram::testing::expect_documented("vram.replay/1", sample_replay_json(),
                                   {{"replay", ""},
                                    {"result", "/results/0"},
                                    {"call", "/results/0/driver_calls/0"},
                                    {"oom", "/results/3/oom"},
                                    {"point", "/results/0/curve/0"}});
}

}  // namespace
}  // namespace vram::show
