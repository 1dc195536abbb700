#include "serve/actions.hpp"

#include "base/testing/documented.hpp"
#include "base/testing/waiting.hpp"
#include "history/testing/history_samples.hpp"
#include "serve/http.hpp"
#include "serve/router.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <unistd.h>

namespace vram::serve {
namespace {

using ::testing::HasSubstr;
using vram::testing::expect_documented;

constexpr int64_t kNow = int64_t{1'795'000'000} * kSignedSecondNs;

class ActionsTest : public ::testing::Test {
 protected:
  ActionsTest() {
    const auto now = [] { return kNow; };
    std::vector<Route> routes = silence_routes(engine_, now);
    for (Route& each :
         action_routes({.feed = {.latest = [] { return nullptr; },
                                 .overdue_ns = [] { return uint64_t{0}; },
                                 .now_ns = [] { return uint64_t{0}; }},
                        .now_unix_ns = now,
                        .board_folders = [this] { return std::vector{folder_.file("board")}; }},
                       jobs_, segments_))
      routes.push_back(std::move(each));
    router_ = std::make_unique<Router>(std::move(routes));
  }
  Response get(const std::string& path) {
    Request request;
    request.path = path;
    return (*router_)(request);
  }
  Response post(const std::string& path, const std::string& body) {
    Request request;
    request.method = Method::kPost;
    request.path = path;
    request.body = body;
    return (*router_)(request);
  }
  static Json json(const Response& response) { return Json::parse(response.body->text()); }

  history::testing::Folder folder_;
  std::shared_ptr<alerts::AlertEngine> engine_ = alerts::AlertEngine::open({}).value();
  std::shared_ptr<Jobs> jobs_ = std::make_shared<Jobs>([] { return kNow; });
  std::shared_ptr<LiveSegments> segments_ = std::make_shared<LiveSegments>(
      [](uint32_t pid) -> Result<watch::SegmentList> {
        return fail(Code::kNotFound, "process {} has no status page", pid);
      },
      [] { return kNow; }, [] { return uint64_t{0}; });
  std::unique_ptr<Router> router_;
};

TEST_F(ActionsTest, ASilenceBeginsAndEnds) {
  const Response made =
      post("/api/v1/silences", R"({"rule": "temperature", "duration": "2h", "comment": "fans\n"})");
  ASSERT_EQ(made.status, 200) << made.body->text();
  expect_documented("vram.silence/1", json(made), {{"one_silence", ""}});
  const Json all = json(get("/api/v1/silences"));
  expect_documented("vram.silences/1", all, {{"silences", ""}, {"silence", "/silences/0"}});
  EXPECT_EQ(all["silences"][0]["until_unix_ns"], kNow + 7200 * kSignedSecondNs);
  EXPECT_EQ(all["silences"][0]["comment"], "fans\\n") << "as one line";
  const Response ended = post("/api/v1/silences/end", R"({"number": 1})");
  EXPECT_EQ(ended.status, 200);
  EXPECT_TRUE(json(ended)["silences"].empty());
  EXPECT_EQ(post("/api/v1/silences/end", R"({"number": 1})").status, 404);
}

TEST_F(ActionsTest, WrongSilencesAreRefused) {
  for (const char* const body :
       {"", "{}", "[]", R"({"duration": "2h"})", R"({"rule": "x"})",
        R"({"rule": "x", "alert": "y", "duration": "2h"})", R"({"rule": 7, "duration": "2h"})",
        R"({"rule": "x", "duration": "1s"})", R"({"rule": "x", "duration": "99999h"})",
        R"({"rule": "x", "duration": "2h", "who": "me"})"})
    EXPECT_EQ(post("/api/v1/silences", body).status, 400) << body;
  EXPECT_EQ(post("/api/v1/silences/end", "{}").status, 400);
  EXPECT_TRUE(json(get("/api/v1/silences"))["silences"].empty());
}

TEST_F(ActionsTest, ChangesAnswerPostAlone) {
  EXPECT_EQ(get("/api/v1/trim").status, 405);
  EXPECT_EQ(get("/api/v1/trim").headers.front().second, "POST");
  EXPECT_EQ(post("/api/v1/free", "{}").status, 405);
  EXPECT_EQ(post("/api/v1/none", "{}").status, 404);
}

TEST_F(ActionsTest, ATrimOfNobodyIsAJobThatFreesNothing) {
  const Response started = post("/api/v1/trim", R"({"all": true})");
  ASSERT_EQ(started.status, 202) << started.body->text();
  expect_documented("vram.job/1", json(started), {{"started", ""}});
  ASSERT_TRUE(jobs_->end(kWaitLimit));
  const Json jobs = json(get("/api/v1/jobs"));
  expect_documented("vram.jobs/1", jobs, {{"jobs", ""}, {"job", "/jobs/0"}});
  EXPECT_EQ(jobs["jobs"][0]["state"], "done");
  EXPECT_EQ(jobs["jobs"][0]["result"]["freed_bytes"], 0);
  EXPECT_EQ(json(get("/api/v1/free"))["schema"], "vram.free/1");
}

TEST_F(ActionsTest, WrongTrimsAreRefusedAtOnce) {
  for (const char* const body :
       {"{}", R"({"pids": [1], "all": true})", R"({"all": false})", R"({"pids": ["1"]})",
        R"({"all": true, "timeout": "61s"})", R"({"all": true, "timeout": "-1s"})",
        R"({"all": true, "bytes": -1})"})
    EXPECT_EQ(post("/api/v1/trim", body).status, 400) << body;
  const Response stranger = post("/api/v1/trim", R"({"pids": [1]})");
  EXPECT_EQ(stranger.status, 404);
  EXPECT_THAT(stranger.body->text(), HasSubstr("has no status page"));
}

TEST_F(ActionsTest, SegmentsAreOfOneProcess) {
  const Response asked = post("/api/v1/segments", R"({"pid": 7})");
  ASSERT_EQ(asked.status, 200) << asked.body->text();
  EXPECT_EQ(json(asked)["pid"], 7);
  ASSERT_TRUE(segments_->end(kWaitLimit));
  EXPECT_EQ(json(post("/api/v1/segments", R"({"pid": 7})"))["error"],
            "process 7 has no status page");
  for (const char* const body : {"", "{}", R"({"pid": 0})", R"({"pid": "7"})", R"({"pids": [7]})"})
    EXPECT_EQ(post("/api/v1/segments", body).status, 400) << body;
}

TEST_F(ActionsTest, ARecordingNeedsAFolderAndAProcess) {
  EXPECT_THAT(post("/api/v1/record", R"({"pid": 1})").body->text(), HasSubstr("--recordings DIR"));
  for (const char* const body :
       {"{}", R"({"pid": 0})", R"({"pid": 1, "steps": 1, "duration": "1s"})",
        R"({"pid": 1, "steps": 0})", R"({"pid": 1, "duration": "0s"})",
        R"({"pid": 1, "duration": "11min"})", R"({"pid": 4294967296})"})
    EXPECT_EQ(post("/api/v1/record", body).status, 400) << body;
}

}  // namespace
}  // namespace vram::serve
