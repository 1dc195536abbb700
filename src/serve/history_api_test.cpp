#include "serve/history_api.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/time.hpp"
#include "history/testing/history_samples.hpp"
#include "serve/testing/bodies.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace vram::serve {
namespace {

using history::testing::kDayBegin;
using history::testing::kHour;
using history::testing::kMinute;
using history::testing::process_on;
using history::testing::sample_at;
using ::testing::HasSubstr;
using vram::testing::expect_documented;

// Two minutes of a day, in the first of them two samples with a process, in the second one.
class HistoryApi : public ::testing::Test {
 protected:
  HistoryApi() {
    add(kDayBegin + 1 * kSignedSecondNs, 40, 10);
    add(kDayBegin + 2 * kSignedSecondNs, 60, 30);
    add(kDayBegin + 61 * kSignedSecondNs, 80, 70);
    history_->add(sample_at(kDayBegin + 62 * kSignedSecondNs, 5, "GPU-b"));
  }

  void add(int64_t time_ns, uint64_t used_bytes, uint64_t of_process) {
    watch::Sampled sampled = sample_at(time_ns, used_bytes);
    sampled.snapshot.processes.push_back(process_on(0, 4'711, 77, of_process));
    history_->add(sampled);
  }

  Response send_and_read(const std::string& path, Query query) {
    Request request;
    request.path = path;
    request.query = std::move(query);
    return router_(request);
  }
  Json course(Query query) {
    const Response response = send_and_read("/api/v1/history", std::move(query));
    return Json::parse(testing::whole(response));
  }
  Json holders(Query query) {
    const Response response = send_and_read("/api/v1/history/processes", std::move(query));
    return Json::parse(testing::whole(response));
  }

  history::testing::Folder folder_;
  std::shared_ptr<history::History> history_ =
      std::make_shared<history::History>(history::testing::opened(folder_.file()));
  Router router_{
      history_routes(history_, [] { return kDayBegin + 2 * kMinute; }, watch::CommandLines::kFull)};
};

const Query kOfMinutes = {{"metric", "used_bytes"}, {"device", "GPU-a"}, {"step", "1min"}};

TEST_F(HistoryApi, ACourseHasAPointForEachStepWithSamples) {
  const Json document = course(kOfMinutes);
  EXPECT_EQ(document["schema"], "vram.history/1");
  EXPECT_EQ(document["time_unix_ns"], kDayBegin + 2 * kMinute);
  EXPECT_EQ(document["to_unix_ns"], kDayBegin + 2 * kMinute);
  EXPECT_EQ(document["from_unix_ns"], kDayBegin + 2 * kMinute - kHour) << "the last hour";
  EXPECT_EQ(document["unit"], "bytes");
  ASSERT_EQ(document["series"].size(), 1U);
  const Json& series = document["series"][0];
  EXPECT_EQ(series["device"],
            Json({{"key", "GPU-a"}, {"name", "Fast 100"}, {"index", 0}, {"total_bytes", 1000}}));
  EXPECT_EQ(series["step_ns"], kMinute);
  EXPECT_EQ(series["points"], Json({{{"time_unix_ns", kDayBegin},
                                     {"average", 50.0},
                                     {"minimum", 40.0},
                                     {"maximum", 60.0},
                                     {"count", 2}},
                                    {{"time_unix_ns", kDayBegin + kMinute},
                                     {"average", 80.0},
                                     {"minimum", 80.0},
                                     {"maximum", 80.0},
                                     {"count", 1}}}));
}

TEST_F(HistoryApi, TimesAreAsTheClientNamesThem) {
  Query query = kOfMinutes;
  query.emplace_back("from", "2026-11-22T00:01:00Z");
  query.emplace_back("to", "now");
  EXPECT_EQ(course(query)["series"][0]["points"].size(), 1U);
  query[3].second = "1795305600";  // the day's beginning
  query[4].second = "2026-11-22T00:01:00Z";
  const Json early = course(query);
  ASSERT_EQ(early["series"][0]["points"].size(), 1U);
  EXPECT_EQ(early["series"][0]["points"][0]["count"], 2);
}

TEST_F(HistoryApi, WithoutADeviceEachHasASeries) {
  const Json document = course({{"metric", "used_bytes"}});
  ASSERT_EQ(document["series"].size(), 2U);
  EXPECT_EQ(document["series"][0]["device"]["key"], "GPU-a");
  EXPECT_EQ(document["series"][1]["device"]["key"], "GPU-b");
}

TEST_F(HistoryApi, HoldersAreTheProcessesAndWhatTheyHeld) {
  const Json document = holders({{"device", "GPU-a"}});
  EXPECT_EQ(document["schema"], "vram.history_processes/1");
  ASSERT_EQ(document["series"].size(), 1U);
  const Json& series = document["series"][0];
  EXPECT_EQ(series["process"]["pid"], 4'711);
  EXPECT_EQ(series["process"]["start_ticks"], 77);
  EXPECT_EQ(series["process"]["user"], "ann");
  EXPECT_EQ(series["process"]["command"], "python train.py");
  EXPECT_TRUE(series["process"]["pod"].is_null());
  EXPECT_EQ(series["step_ns"], kMinute) << "processes are kept by minutes";
  ASSERT_EQ(series["points"].size(), 2U);
  EXPECT_EQ(series["points"][0]["average"], 20.0);
  EXPECT_EQ(series["points"][0]["maximum"], 30.0);
  EXPECT_EQ(series["points"][1]["average"], 70.0);
}

TEST_F(HistoryApi, TheDocumentsHaveTheDocumentedFields) {
  expect_documented("vram.history/1", course(kOfMinutes),
                    {{"history", ""},
                     {"series", "/series/0"},
                     {"history_device", "/series/0/device"},
                     {"point", "/series/0/points/0"}});
  const Json document = holders({});
  expect_documented("vram.history_processes/1", document,
                    {{"history_processes", ""},
                     {"holder", "/series/0"},
                     {"history_process", "/series/0/process"}});
  auto shared = vram::testing::documented("vram.history/1");
  EXPECT_EQ(vram::testing::keys_of(document["series"][0]["device"]), shared["history_device"]);
  EXPECT_EQ(vram::testing::keys_of(document["series"][0]["points"][0]), shared["point"]);
}

TEST_F(HistoryApi, WhatCantBeMeantIsRefusedWithWhatWasExpected) {
  const std::vector<std::pair<Query, std::string>> cases = {
      {{}, "metric: expected one of"},
      {{{"metric", "size"}}, "used_bytes"},
      {{{"metric", "used_bytes"}, {"from", "yesterday"}}, "from: "},
      {{{"metric", "used_bytes"}, {"from", "now"}, {"to", "-1min"}}, "'from' to be before 'to'"},
      {{{"metric", "used_bytes"}, {"step", "0.0001s"}}, "step: "},
      {{{"metric", "used_bytes"}, {"step", "1ms"}}, "more than 5000 points"}};
  for (const auto& [query, words] : cases) {
    const Response response = send_and_read("/api/v1/history", query);
    EXPECT_EQ(response.status, 400) << words;
    EXPECT_THAT(response.body->text(), HasSubstr(words));
  }
  for (const char* const most : {"0", "101", "-1", "3x", ""})
    EXPECT_EQ(send_and_read("/api/v1/history/processes", {{"most", most}}).status, 400) << most;
  EXPECT_EQ(
      send_and_read("/api/v1/history", {{"metric", "used_bytes"}, {"device", "GPU-z"}}).status,
      404);
}

// The file may be of a time when arguments were shown.
TEST_F(HistoryApi, CommandLinesAreShownAsFarAsIsAllowed) {
  const std::pair<watch::CommandLines, Json> cases[] = {
      {watch::CommandLines::kOff, nullptr},
      {watch::CommandLines::kName, "python"},
      {watch::CommandLines::kFull, "python train.py"}};
  for (const auto& [commands, shown] : cases) {
    router_ = Router(history_routes(history_, [] { return kDayBegin + 2 * kMinute; }, commands));
    EXPECT_EQ(holders({{"device", "GPU-a"}})["series"][0]["process"]["command"], shown);
  }
}

TEST_F(HistoryApi, ALargeAnswerIsMadeInSmallPieces) {
  constexpr int kSamples = 4'000;
  for (int i = 0; i < kSamples; ++i)
    history_->add(sample_at(kDayBegin + 2 * kMinute + i * kSignedSecondNs, 5, "GPU-b"));
  const Response response = send_and_read(
      "/api/v1/history",
      {{"metric", "used_bytes"}, {"from", "1795305600"}, {"step", "1s"}, {"to", "1795310500"}});
  ASSERT_NE(response.stream, nullptr) << response.body->text();
  std::string text;
  size_t pieces = 0;
  size_t held = 0;
  for (auto piece = response.stream->next(); piece && !piece->empty();
       piece = response.stream->next(), ++pieces) {
    text += *piece;
    EXPECT_LT(piece->size(), size_t{40} << 10);
    held = std::max(held, response.stream->held_bytes());
  }
  EXPECT_GT(pieces, 5U);
  EXPECT_GT(held, kSamples * sizeof(history::HistoryPoint) / 2);
  EXPECT_LT(held, 2 * kSamples * sizeof(history::HistoryPoint));
  EXPECT_EQ(response.stream->held_bytes(), 0U) << "after the end";
  const Json document = Json::parse(text);
  ASSERT_EQ(document["series"].size(), 2U);
  EXPECT_EQ(document["series"][0]["points"].size(), 3U);
  EXPECT_EQ(document["series"][1]["points"].size(), kSamples + 1U);
}

TEST_F(HistoryApi, PointsOfHoldersAreBounded) {
  const Response response = send_and_read("/api/v1/history/processes",
                                          {{"most", "100"}, {"from", "-12h"}, {"step", "1min"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body->text(), HasSubstr("found 100 times 720"));
}

TEST(NoHistory, SaysHowToHaveOne) {
  const Router router(
      history_routes(nullptr, [] { return kDayBegin; }, watch::CommandLines::kFull));
  Request request;
  request.path = "/api/v1/history";
  const Response response = router(request);
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(response.body->text(), HasSubstr("--history FILE"));
}

TEST(NoHistory, OnlyPathsOfTheHistoryAreSlow) {
  Request request;
  request.path = "/api/v1/history/processes";
  EXPECT_TRUE(is_about_history(request));
  request.path = "/metrics";
  EXPECT_FALSE(is_about_history(request));
}

}  // namespace
}  // namespace vram::serve
