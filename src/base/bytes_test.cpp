#include "base/bytes.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vram {
namespace {

TEST(FormatBytes, ShowsThreeDigitsAndTheUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(2 * kMiB), "2 MiB");
  EXPECT_EQ(format_bytes(25379906252), "23.6 GiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(kGiB - 1), "1 GiB");
  EXPECT_EQ(format_bytes(~uint64_t{0}), "16 EiB");
}

TEST(FormatBytes, Signed) {
  EXPECT_EQ(format_bytes_signed(0), "0 B");
  EXPECT_EQ(format_bytes_signed(-3 * 1024), "-3 KiB");
  EXPECT_EQ(format_bytes_signed(1536), "+1.5 KiB");
  EXPECT_EQ(format_bytes_signed(INT64_MIN), "-8 EiB");
}

TEST(ParseBytes, AcceptsWhatPeopleWrite) {
  EXPECT_EQ(parse_bytes("16GiB").value(), 16 * kGiB);
  EXPECT_EQ(parse_bytes(" 512 MiB ").value(), 512 * kMiB);
  EXPECT_EQ(parse_bytes("1.5g").value(), kGiB + kGiB / 2);
  EXPECT_EQ(parse_bytes("20971520").value(), 20 * kMiB);
  EXPECT_EQ(parse_bytes("4KB").value(), 4 * kKiB);
  EXPECT_EQ(parse_bytes("0").value(), 0U);
}

TEST(ParseBytes, RefusesTheRestByName) {
  for (const char* text :
       {"", "GiB", "-1", "12 apples", "1e3", "nan", "0x10", "1GiBs", "9999999EiB"}) {
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
  }
  EXPECT_NE(parse_bytes("12 apples").error().message.find("12 apples"), std::string::npos);
  EXPECT_NE(parse_bytes("90000000P").error().message.find("8 EiB"), std::string::npos);
}

TEST(ParseBytes, ReadsBackWhatFormatWroteWithinItsDigits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t bytes = random() >> (1 + random() % 62);
    const auto parsed = parse_bytes(format_bytes(bytes));
    if (bytes >= uint64_t{1} << 60) continue;  // EiB is only written
    ASSERT_TRUE(parsed.has_value()) << format_bytes(bytes);
    EXPECT_NEAR(static_cast<double>(*parsed), static_cast<double>(bytes),
                0.006 * static_cast<double>(bytes) + 1)
        << format_bytes(bytes);
  }
}

TEST(Durations, FormatAndParse) {
  EXPECT_EQ(format_duration_ns(12), "12 ns");
  EXPECT_EQ(format_duration_ns(7'800), "7.8 us");
  EXPECT_EQ(format_duration_ns(456'000'000), "456 ms");
  EXPECT_EQ(format_duration_ns(999'600'000), "1 s");
  EXPECT_EQ(format_duration_ns(-1'230'000'000), "-1.23 s");
  EXPECT_EQ(format_duration_ns(INT64_MIN), "-2562047 h 47 min");
  EXPECT_EQ(format_duration_ns(125'000'000'000), "2 min 5 s");
  EXPECT_EQ(parse_duration_ns("1.5s").value(), 1'500'000'000);
  EXPECT_EQ(parse_duration_ns("250 ms").value(), 250'000'000);
  EXPECT_EQ(parse_duration_ns("42").value(), 42'000'000'000);
  EXPECT_FALSE(parse_duration_ns("soon").has_value());
  EXPECT_FALSE(parse_duration_ns("99999999999h").has_value());
}

TEST(Times, AreUtc) {
  EXPECT_EQ(clock_text(1'795'252'445'120'000'000), "2026-11-21 09:14:05 UTC");
  EXPECT_EQ(clock_text(0), "-");
  EXPECT_EQ(rfc3339(1'795'252'445'120'000'000), "2026-11-21T09:14:05.120Z");
}

TEST(Counts, GroupsAndShares) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1'234'567), "1,234,567");
  EXPECT_EQ(counted(0, "block"), "0 blocks");
  EXPECT_EQ(counted(1, "block"), "1 block");
  EXPECT_EQ(counted(1'200, "block"), "1,200 blocks");
  EXPECT_EQ(format_share(1, 8), "12.5 %");
  EXPECT_EQ(format_share(0, 0), "–");
}

}  // namespace
}  // namespace vram
