#include "serve/live_segments.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/testing/waiting.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>

namespace vram::serve {
namespace {

using vram::testing::expect_documented;
using watch::BlockState;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr int64_t kMomentNs = int64_t{1'795'000'000} * kSignedSecondNs;

watch::SegmentList sample_list() {
  return {.taken_ns = 3 * kSecondNs,
          .totals = {.segments = 9, .blocks = 30, .bytes = 100 * kMebibyte},
          .segments = {{0, 512 * kMebibyte, 20 * kMebibyte, 5, watch::kSegmentExpandable, 2},
                       {1, 1024 * kMebibyte, 2 * kMebibyte, 0, watch::kSegmentSmall, 1}},
          .blocks = {{4 * kMebibyte, 4 * kMebibyte - 100, BlockState::kAllocated},
                     {16 * kMebibyte, 0, BlockState::kFree},
                     {2 * kMebibyte, 700, BlockState::kHeld}}};
}

class LiveSegmentsTest : public ::testing::Test {
 protected:
  // Requests use the members.
  void TearDown() override { EXPECT_TRUE(segments_.end(std::chrono::seconds(30))); }

  // Waits until no request is pending, and returns the document.
  Json settled(uint32_t pid) {
    Json document;
    EXPECT_TRUE(eventually([&] {
      document = Json::parse(segments_.watch(pid));
      return document["is_asked"] == false;
    }));
    return document;
  }

  std::atomic<int> asked_ = 0;
  std::atomic<int64_t> now_ = kMomentNs;
  std::atomic<bool> fails_ = false;
  LiveSegments segments_{[this](uint32_t) -> Result<watch::SegmentList> {
                           ++asked_;
                           if (fails_) return fail(Code::kIo, "process 1 ended\n");
                           return sample_list();
                         },
                         [this] { return now_.load(); }, [] { return 5 * kSecondNs; }};
};

TEST_F(LiveSegmentsTest, TheFirstRequestAsksAndALaterOneHasTheList) {
  const Json first = Json::parse(segments_.watch(7));
  EXPECT_EQ(first["is_asked"], true);
  EXPECT_TRUE(first["list"].is_null());
  const Json document = settled(7);
  expect_documented("vram.segments/1", document,
                    {{"segments", ""}, {"segment_list", "/list"}, {"segment", "/list/segments/0"}});
  EXPECT_EQ(document["pid"], 7);
  EXPECT_TRUE(document["error"].is_null());
  const Json& list = document["list"];
  EXPECT_EQ(list["taken_unix_ns"], kMomentNs - 2 * kSignedSecondNs);
  EXPECT_EQ(list["reserved_bytes"], 100 * kMebibyte);
  EXPECT_EQ(list["segments"][0]["sizes"], Json({4 * kMebibyte, 16 * kMebibyte}));
  EXPECT_EQ(list["segments"][0]["requested"], Json({4 * kMebibyte - 100, 0}));
  EXPECT_EQ(list["segments"][0]["states"], Json({1, 0}));
  EXPECT_EQ(list["segments"][0]["is_expandable"], true);
  EXPECT_EQ(list["segments"][1]["states"], Json({2}));
  EXPECT_EQ(list["segments"][1]["number"], 1);
}

TEST_F(LiveSegmentsTest, AProcessIsAskedOnceASecond) {
  (void)settled(7);
  for (int i = 0; i < 10; ++i) (void)settled(7);
  EXPECT_EQ(asked_, 1);
  now_ += LiveSegments::kMinPauseNs;
  EXPECT_EQ(Json::parse(segments_.watch(7))["is_asked"], true);
  (void)settled(7);
  EXPECT_EQ(asked_, 2);
}

TEST_F(LiveSegmentsTest, AfterAFailureTheLastListStays) {
  (void)settled(7);
  fails_ = true;
  now_ += LiveSegments::kMinPauseNs;
  (void)segments_.watch(7);
  const Json document = settled(7);
  EXPECT_EQ(document["error"], "process 1 ended\n");
  EXPECT_EQ(document["list"]["segment_count"], 9);
}

TEST_F(LiveSegmentsTest, FewProcessesAreKept) {
  constexpr uint32_t kLast = 2 * LiveSegments::kMaxProcesses;
  for (uint32_t pid = 1; pid <= kLast; ++pid) (void)settled(pid);
  fails_ = true;
  EXPECT_FALSE(settled(kLast)["list"].is_null());
  EXPECT_EQ(Json::parse(segments_.watch(1))["list"], Json()) << "it was forgotten";
}

TEST_F(LiveSegmentsTest, AProcessThatDoesNotAnswerHoldsUpNobody) {
  std::promise<void> answers;
  const std::shared_future<void> answered(answers.get_future());
  LiveSegments slow(
      [answered](uint32_t) {
        answered.wait();
        return sample_list();
      },
      [] { return kMomentNs; }, [] { return uint64_t{0}; });
  for (uint32_t pid = 1; pid <= 20; ++pid) {
    const Json document = Json::parse(slow.watch(pid));
    EXPECT_EQ(document["is_asked"], pid <= Jobs::kMaxRunning);
  }
  EXPECT_FALSE(slow.end(std::chrono::milliseconds(1)));
  answers.set_value();
}

}  // namespace
}  // namespace vram::serve
