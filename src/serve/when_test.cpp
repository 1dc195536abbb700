#include "serve/when.hpp"

#include <gtest/gtest.h>

namespace vram::serve {
namespace {

constexpr int64_t kOneSecond = 1'000'000'000;
constexpr int64_t kNow = 1'795'338'845 * kOneSecond;  // 2026-11-22 09:14:05 UTC

TEST(When, IsSecondsACalendarTimeOrSoLongAgo) {
  const std::pair<const char*, int64_t> cases[] = {
      {"0", 0},
      {"1795338845", kNow},
      {"1795338845.25", kNow + kOneSecond / 4},
      {"1795338845.000000001", kNow + 1},
      {"2026-11-22T09:14:05Z", kNow},
      {"1970-01-01T00:00:01Z", kOneSecond},
      {"2024-02-29T00:00:00Z", 1'709'164'800 * kOneSecond},
      {"now", kNow},
      {"-0s", kNow},
      {"-1", kNow - kOneSecond},
      {"-90min", kNow - 5400 * kOneSecond},
      {"-1h", kNow - 3600 * kOneSecond},
  };
  for (const auto& [text, time_ns] : cases) {
    const auto parsed = parse_when(text, kNow);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, time_ns) << text;
  }
}

TEST(When, AnythingElseIsRefused) {
  for (const char* text : {"",
                           " 1",
                           "1 ",
                           "1e9",
                           "nan",
                           "inf",
                           "--1h",
                           "99999999999",
                           "2026-11-22",
                           "2026-11-22T09:14:05",
                           "2026-11-22T24:00:00Z",
                           "2025-02-29T00:00:00Z",
                           "2026-13-01T00:00:00Z",
                           "+026-11-22T09:14:05Z",
                           "2026-11-22T09:14:05Zx",
                           "-1000000h",
                           "yesterday",
                           ".5",
                           "1.",
                           "1.0000000001",
                           "1.-5",
                           "9999999999"}) {
    EXPECT_FALSE(parse_when(text, kNow)) << text;
  }
}

}  // namespace
}  // namespace vram::serve
