// vram free for people and for programs, of hand-made values.
#include "show/live/free.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/testing/hostile_text.hpp"
#include "base/text.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace vram::show {
namespace {

using ::testing::HasSubstr;
using watch::TrimAnswer;
using watch::TrimOutcome;

watch::Reclaimable sample_reclaimable() {
  watch::Reclaimable all;
  all.host = "node1";
  all.time_ns = testing::kSnapshotTime;
  watch::Holder asks;
  asks.facts.pid = 4711;
  asks.facts.user = "ada";
  asks.facts.command = vram::testing::hostile_text();
  asks.folder = "/board";
  asks.held_bytes = 3 * kGiB;
  asks.is_idle = true;
  asks.posted.resize(1);
  asks.posted[0].figures.cached_bytes = 2 * kGiB;
  watch::Holder gone;
  gone.facts.pid = 99;
  gone.is_gone = true;
  all.holders = {asks, gone};
  all.dead = {{12, "/board", vram::testing::hostile_text()}};
  all.notes = {"no NVML"};
  return all;
}

std::vector<TrimAnswer> answers() {
  return {{4711, TrimOutcome::kAnswered, kGiB, ""},
          {8, TrimOutcome::kSilent, {}, ""},
          {9, TrimOutcome::kRefused, {}, vram::testing::hostile_text()}};
}

TEST(FreeText, SaysWhoWouldGiveWhat) {
  const std::string text = draw_reclaimable(sample_reclaimable());
  EXPECT_THAT(text, HasSubstr("4711"));
  EXPECT_THAT(text, HasSubstr("2 GiB"));
  EXPECT_THAT(text, HasSubstr("idle"));
  EXPECT_THAT(text, HasSubstr("no such process any more"));
  EXPECT_THAT(text, HasSubstr("process 12 has ended"));
  EXPECT_THAT(text, HasSubstr("'vram free --all' asks for 2 GiB"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(FreeText, SaysWhatCameBackAndWhoDidNotAnswer) {
  const std::string text = draw_answers(sample_reclaimable(), answers(), 2);
  EXPECT_THAT(text, HasSubstr("1 GiB came back; 1 of 3 answered."));
  EXPECT_THAT(text, HasSubstr("silent"));
  EXPECT_THAT(text, HasSubstr("Pages of dead processes removed: 2."));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(draw_answers({}, {}, 0), HasSubstr("No process was asked"));
}

TEST(FreeJson, EveryFieldIsDocumentedAndUnknownIsNull) {
  const auto json = Json::parse(free_json(sample_reclaimable(), answers(), 2));
  vram::testing::expect_documented("vram.free/1", json,
                                   {{"free", ""},
                                    {"process", "/processes/0"},
                                    {"posted", "/processes/0/devices/0"},
                                    {"dead_page", "/dead_pages/0"},
                                    {"answer", "/answers/0"}});
  vram::testing::expect_integers(json, "");
  EXPECT_EQ(json["freed_bytes"], kGiB);
  EXPECT_EQ(json["processes"][0]["command"], valid_utf8(vram::testing::hostile_text()));
  EXPECT_TRUE(json["processes"][1]["held_bytes"].is_null());
  EXPECT_TRUE(json["answers"][1]["freed_bytes"].is_null());
}

}  // namespace
}  // namespace vram::show
