#include "show/metrics/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <string>

namespace vram::show {
namespace {

constexpr auto kText = MetricsFormat::kPrometheus;
constexpr auto kOpen = MetricsFormat::kOpenMetrics;

TEST(Negotiate, GivesWhatIsWantedMost) {
  EXPECT_EQ(negotiate(""), kText);
  EXPECT_EQ(negotiate("*/*"), kText);
  EXPECT_EQ(negotiate("text/html,application/xhtml+xml,*/*;q=0.8"), kText);
  EXPECT_EQ(negotiate("application/openmetrics-text"), kOpen);
  // As Prometheus 2.42 asks.
  EXPECT_EQ(negotiate("application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
                      "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
            kOpen);
  EXPECT_EQ(
      negotiate("Application/OpenMetrics-Text ; Version=\"1.0.0\" ; Q=0.6 , text/plain;q=0.5"),
      kOpen);
  EXPECT_EQ(negotiate("application/openmetrics-text;q=0.3,text/plain;q=0.5"), kText);
  EXPECT_EQ(negotiate("application/openmetrics-text;q=0"), kText);
}

TEST(Negotiate, VersionsThatWeDoNotWriteAreNotGiven) {
  EXPECT_EQ(negotiate("application/openmetrics-text;version=0.0.1"), kText);
  EXPECT_EQ(negotiate("application/openmetrics-text;version=2.0.0,text/plain;q=0.1"), kText);
}

TEST(Negotiate, AnythingMayBeAsked) {
  for (const char* const header :
       {",", ";;;", ",;=,", "application/openmetrics-text;q=nan",
        "application/openmetrics-text;q=2", "application/openmetrics-text;q=1e999",
        "application/openmetrics-text;q=", "\xff\x01;q=-1"})
    EXPECT_EQ(negotiate(header), kText) << header;
  EXPECT_EQ(negotiate(std::string(100'000, ',')), kText);
}

// A header that was damaged on the way is still only a wish, and never for what it does not name.
TEST(Negotiate, DamagedHeadersAskForNothingNew) {
  const std::string header =
      "application/openmetrics-text;version=1.0.0;q=0.7,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
  std::mt19937 random(1);
  int open = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = header.substr(random() % 8 == 0 ? random() % header.size() : 0);
    for (auto n = random() % 6; n > 0; --n)
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    if (negotiate(damaged) != kOpen) continue;
    ++open;
    std::string lower = damaged;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    EXPECT_NE(lower.find("application/openmetrics-text"), std::string::npos) << damaged;
  }
  EXPECT_GT(open, 1'000);
}

TEST(ContentType, NamesTheVersion) {
  EXPECT_EQ(content_type(kText), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(content_type(kOpen), "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

}  // namespace
}  // namespace vram::show
