#include "alerts/silences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vram::alerts {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMinuteNs = 60 * kSignedSecondNs;

Alert alert(const std::string& id, AlertState state = AlertState::kFiring) {
  Alert made;
  made.id = id;
  made.rule = "memory-full";
  made.state = state;
  return made;
}

Silence of_alert(const std::string& id, int64_t minutes) {
  return {.alert = id, .until_unix_ns = minutes * kMinuteNs};
}

std::vector<std::string> ids(const std::vector<AlertChange>& changes) {
  std::vector<std::string> found;
  for (const AlertChange& each : changes) found.push_back(each.alert.id);
  return found;
}

TEST(Silences, WithholdABeginningUntilTheyEnd) {
  Silences silences;
  ASSERT_TRUE(silences.add(of_alert("a", 10)));
  const std::vector all = {alert("a"), alert("b")};
  EXPECT_THAT(ids(silences.pass({{all[0]}, {all[1]}}, all, 0)), ElementsAre("b"));
  EXPECT_EQ(silences.known(all).size(), 1U);
  EXPECT_THAT(ids(silences.pass({}, all, 9 * kMinuteNs)), IsEmpty());
  EXPECT_THAT(ids(silences.pass({}, all, 10 * kMinuteNs)), ElementsAre("a")) << "it still fires";
  EXPECT_THAT(ids(silences.pass({}, all, 11 * kMinuteNs)), IsEmpty()) << "once";
  EXPECT_EQ(silences.known(all).size(), 2U);
  EXPECT_THAT(silences.all(), IsEmpty()) << "those that are over are forgotten";
}

TEST(Silences, AnEndIsForThoseWhoKnowOfTheBeginning) {
  Silences silences;
  const std::vector firing = {alert("known"), alert("withheld")};
  EXPECT_THAT(ids(silences.pass({{firing[0]}}, firing, 0)), ElementsAre("known"));
  ASSERT_TRUE(silences.add({.rule = "memory-full", .until_unix_ns = 10 * kMinuteNs}));
  EXPECT_THAT(ids(silences.pass({{firing[1]}}, firing, 1)), IsEmpty());
  const std::vector over = {alert("known", AlertState::kResolved),
                            alert("withheld", AlertState::kResolved)};
  EXPECT_THAT(ids(silences.pass({{over[0]}, {over[1]}}, over, 2)), ElementsAre("known"));
}

TEST(Silences, OneThatIsEndedEarlyReleasesItsAlert) {
  Silences silences;
  const uint64_t number = silences.add(of_alert("a", 10)).value().number;
  const std::vector all = {alert("a")};
  (void)silences.pass({{all[0]}}, all, 0);
  ASSERT_TRUE(silences.end(number, 1));
  EXPECT_THAT(ids(silences.pass({}, all, 2)), ElementsAre("a"));
  EXPECT_EQ(silences.end(number, 3).error().code, Code::kNotFound);
}

TEST(Silences, TheOneThatEndsLastCounts) {
  Silences silences;
  ASSERT_TRUE(silences.add(of_alert("a", 10)));
  ASSERT_TRUE(silences.add({.rule = "memory-full", .until_unix_ns = 20 * kMinuteNs}));
  EXPECT_EQ(silences.find(alert("a"), 0)->until_unix_ns, 20 * kMinuteNs);
  EXPECT_EQ(silences.find(alert("a"), 20 * kMinuteNs), nullptr);
}

TEST(Silences, ALaterProcessContinuesThem) {
  Silences silences;
  ASSERT_TRUE(silences.add(
      {.alert = "a", .comment = "being \"replaced\" \xff", .until_unix_ns = 10 * kMinuteNs}));
  const std::vector all = {alert("a")};
  (void)silences.pass({{all[0]}}, all, 0);
  Silences later;
  ASSERT_TRUE(later.restore(silences.save()));
  EXPECT_EQ(later.all().front().alert, "a");
  EXPECT_THAT(ids(later.pass({}, all, 10 * kMinuteNs)), ElementsAre("a"));
  EXPECT_EQ(later.add(of_alert("b", 10)).value().number, 2U) << "numbers are not used again";
  EXPECT_TRUE(later.restore(""));
  for (const char* const damaged : {"{", "[]", R"({"next":"x"})"})
    EXPECT_FALSE(later.restore(damaged)) << damaged;
}

TEST(Silences, HaveLimits) {
  Silences silences;
  EXPECT_FALSE(silences.add({.until_unix_ns = kMinuteNs})) << "names nothing";
  EXPECT_FALSE(silences.add({.alert = "a", .rule = "b", .until_unix_ns = kMinuteNs})) << "both";
  EXPECT_FALSE(silences.add({.alert = "a", .until_unix_ns = kMinuteNs - 1}));
  EXPECT_FALSE(silences.add({.alert = "a", .until_unix_ns = kMaxSilenceNs + 1}));
  EXPECT_FALSE(silences.add({.alert = "a",
                             .comment = std::string(kMaxCommentBytes + 1, 'x'),
                             .until_unix_ns = kMinuteNs}));
  for (size_t i = 0; i < kMaxSilences; ++i) ASSERT_TRUE(silences.add(of_alert("a", 1)));
  EXPECT_FALSE(silences.add(of_alert("a", 1)));
}

}  // namespace
}  // namespace vram::alerts
