#include "serve/recordings.hpp"

#include "base/testing/waiting.hpp"
#include "history/testing/history_samples.hpp"
#include "serve/http.hpp"
#include "serve/recording_routes.hpp"
#include "serve/router.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <sys/stat.h>

namespace vram::serve {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Instead of vram: its report tells what it was given.
constexpr const char* kProgram = R"sh(#!/bin/sh
echo "$3" >> "$(dirname "$0")/runs"
case "$(cat "$2")" in
  bad) echo "error: $2: expected a recording, found nonsense" >&2; exit 2 ;;
  hang) while :; do sleep 1; done ;;
esac
if [ "$3" = --html ]; then echo "<html>$(basename "$2"): $(cat "$2")</html>" > "$4"; exit 0; fi
echo '{"path": "x", "steps": {"items": [1, 2]}, "events": 7, "oom_count": 1,'
echo '"peak": {"requested_bytes": 5, "reserved_bytes": 8},'
echo '"findings": [{"kind": "leak", "bytes": 3, "title": "a leak", "detail": "d"}]}'
)sh";

class RecordingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_.file("recordings"));
    std::ofstream(folder_.file("vram")) << kProgram;
    fs::permissions(folder_.file("vram"), fs::perms::owner_all);
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(path(name)) << text;
  }
  std::string path(const std::string& name) { return folder_.file("recordings") + "/" + name; }
  std::shared_ptr<Recordings> open(RecordingLimits limits = {}) {
    return Recordings::open(folder_.file("recordings"), folder_.file("vram"), limits).value();
  }
  static Json list(Recordings& recordings) {
    return Json::parse(recordings.list().value())["recordings"];
  }
  // Once nothing is being read any more.
  static Json read_list(Recordings& recordings) {
    EXPECT_TRUE(eventually(
        [&] { return recordings.list().value().find("\"reading\"") == std::string::npos; }));
    return list(recordings);
  }
  static Json page_of(Recordings& recordings, const std::string& name) {
    Json answer;
    EXPECT_TRUE(eventually([&] {
      answer = Json::parse(recordings.request_page(name).value());
      return answer["state"] != "preparing";
    }));
    return answer;
  }
  static Response get(const Router& router, const std::string& path, Query query = {}) {
    Request request;
    request.path = path;
    request.query = std::move(query);
    return router(request);
  }
  static std::string text_of(const Response& response) {
    if (response.body) return response.body->text();
    std::string text;
    for (std::string piece = response.stream->next().value(); !piece.empty();
         piece = response.stream->next().value())
      text += piece;
    return text;
  }

  history::testing::Folder folder_;
};

TEST_F(RecordingsTest, AreListedWithTheirFindings) {
  write("run.vtrace", "good");
  write("bad.pickle.xz", "bad");
  write("notes.txt", "good");
  write(".hidden.vtrace", "good");
  const auto recordings = open();
  std::map<std::string, Json> all;
  for (const Json& each : read_list(*recordings)) all[each["name"]] = each;
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all["bad.pickle.xz"]["state"], "failed");
  EXPECT_THAT(all["bad.pickle.xz"]["error"].get<std::string>(), HasSubstr("found nonsense"));
  const Json& run = all["run.vtrace"];
  EXPECT_EQ(run["size_bytes"], 4);
  EXPECT_EQ(run["state"], "read");
  EXPECT_EQ(run["summary"], Json::parse(R"({"events": 7, "oom_count": 1, "peak_requested_bytes": 5,
              "peak_reserved_bytes": 8, "findings": [{"kind": "leak", "bytes": 3,
              "title": "a leak"}]})"));
}

TEST_F(RecordingsTest, PagesAreMadeOnceAndFoundByTheirKeyAlone) {
  write("run one.vtrace", "good");
  const auto recordings = open();
  const Router router(recording_routes(recordings));
  const Json made = page_of(*recordings, "run one.vtrace");
  ASSERT_EQ(made["state"], "ready") << made;
  const std::string path = made["path"];
  EXPECT_EQ(path.size(), std::string("/recordings/").size() + 32);
  const Response page = get(router, path);
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(text_of(page), "<html>run one.vtrace: good</html>\n");
  EXPECT_THAT(page.headers.front().second, HasSubstr("sandbox"));
  EXPECT_EQ(page_of(*recordings, "run one.vtrace")["path"], path);
  EXPECT_EQ(get(router, "/recordings/0").status, 404);
  EXPECT_EQ(get(router, "/recordings/output").status, 404);
  EXPECT_EQ(get(router, "/recordings/../recordings").status, 404);
}

TEST_F(RecordingsTest, NothingOutsideTheFolderIsOpened) {
  std::ofstream(folder_.file("secret.vtrace")) << "good";
  fs::create_symlink(folder_.file("secret.vtrace"), path("link.vtrace"));
  fs::create_directory(path("folder.vtrace"));
  ASSERT_EQ(mkfifo(path("pipe.vtrace").c_str(), 0600), 0);
  const auto recordings = open();
  EXPECT_EQ(list(*recordings).size(), 0U);
  for (const char* const name :
       {"../secret.vtrace", "link.vtrace", "folder.vtrace", "pipe.vtrace", "", ".", "..",
        "/etc/passwd", "none.vtrace", "recordings/link.vtrace"})
    EXPECT_EQ(recordings->request_page(name).error().code, Code::kNotFound) << name;
}

TEST_F(RecordingsTest, HostileNamesAreNames) {
  const std::string name = "--serve <script>\x1b[2J\xff.vtrace";
  write(name, "good");
  const auto recordings = open();
  const Json all = read_list(*recordings);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]["state"], "read") << all;
  EXPECT_EQ(page_of(*recordings, name)["state"], "ready");
}

TEST_F(RecordingsTest, AChangedFileHasAnotherReport) {
  write("run.vtrace", "good");
  const auto recordings = open();
  const std::string first = page_of(*recordings, "run.vtrace")["path"];
  write("run.vtrace", "good, and longer");
  const std::string second = page_of(*recordings, "run.vtrace")["path"];
  EXPECT_NE(first, second);
  EXPECT_EQ(read_list(*recordings).size(), 1U);
}

// Each request finds another file; a page takes longer than a client waits between two requests.
TEST_F(RecordingsTest, AFileThatGrowsHasAReportOfItsFirstRequest) {
  const auto recordings = open();
  std::string text = "good";
  Json answer;
  EXPECT_TRUE(eventually([&] {
    write("run.vtrace", text += '.');
    answer = Json::parse(recordings->request_page("run.vtrace").value());
    return answer["state"] != "preparing";
  }));
  EXPECT_EQ(answer["state"], "ready");
  EXPECT_EQ(read_whole(folder_.file("runs"), 1000).value(), "--html\n") << "made once";
  write("run.vtrace", text += '.');
  EXPECT_NE(page_of(*recordings, "run.vtrace")["path"], answer["path"]) << "then another";
}

TEST_F(RecordingsTest, AFileThatGrowsKeepsItsFindingsUntilItIsReadAgain) {
  const auto runs = [&] { return read_whole(folder_.file("runs"), 10'000).value(); };
  const auto rarely = open();
  std::string text = "good";
  Json entry;
  EXPECT_TRUE(eventually([&] {
    write("run.vtrace", text += '.');
    entry = list(*rarely)[0];
    return entry["state"] == "read";
  })) << "each list finds another file";
  for (int poll = 0; poll < 20; ++poll) {
    write("run.vtrace", text += '.');
    entry = list(*rarely)[0];
    EXPECT_EQ(entry["state"], "read");
    EXPECT_EQ(entry["summary"]["events"], 7);
    EXPECT_EQ(entry["size_bytes"], text.size());
  }
  EXPECT_EQ(runs(), "--json\n") << "read once";
  const auto often = open({.growing_pause = std::chrono::seconds(0)});
  (void)read_list(*often);
  write("run.vtrace", "bad");
  EXPECT_TRUE(eventually([&] { return list(*often)[0]["state"] == "failed"; }));
  write("run.vtrace", "good");
  EXPECT_TRUE(eventually([&] { return list(*often)[0]["state"] == "read"; })) << "at once";
}

TEST_F(RecordingsTest, LargeFilesAreReadOnRequestAndVeryLargeOnesNever) {
  write("run.vtrace", "good");
  const auto recordings = open({.explained_bytes = 3, .opened_bytes = 3});
  EXPECT_EQ(list(*recordings)[0]["state"], "unread");
  EXPECT_EQ(recordings->request_page("run.vtrace").error().code, Code::kTooLarge);
}

TEST_F(RecordingsTest, AReportThatHangsIsEnded) {
  write("run.vtrace", "hang");
  const auto slow = open({.report = {.time = std::chrono::milliseconds(200)}});
  EXPECT_THAT(read_list(*slow)[0]["error"].get<std::string>(), HasSubstr("was ended"));
  const auto ending = open();
  (void)list(*ending);  // the destructor does not wait for it
}

TEST_F(RecordingsTest, OldPagesGo) {
  const auto recordings = open({.pages = 1});
  const Router router(recording_routes(recordings));
  write("a.vtrace", "good");
  write("b.vtrace", "good");
  const std::string first = page_of(*recordings, "a.vtrace")["path"];
  const std::string second = page_of(*recordings, "b.vtrace")["path"];
  EXPECT_EQ(get(router, first).status, 404);
  EXPECT_EQ(get(router, second).status, 200);
}

TEST_F(RecordingsTest, AFailedPageSaysWhyAndCanBeTriedAgain) {
  write("run.vtrace", "bad");
  const auto recordings = open();
  const Json failed = page_of(*recordings, "run.vtrace");
  EXPECT_EQ(failed["state"], "failed");
  EXPECT_THAT(failed["error"].get<std::string>(), HasSubstr("found nonsense"));
  EXPECT_EQ(Json::parse(recordings->request_page("run.vtrace").value())["state"], "preparing");
}

TEST(RecordingRoutes, WithoutAFolderSayHowToNameOne) {
  const Router router(recording_routes(nullptr));
  Request request;
  request.path = "/api/v1/recordings";
  EXPECT_EQ(router(request).status, 404);
  EXPECT_THAT(router(request).body->text(), HasSubstr("--recordings DIR"));
  EXPECT_FALSE(Recordings::open("/nowhere"));
}

}  // namespace
}  // namespace vram::serve
