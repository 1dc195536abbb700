#include "serve/target.hpp"

#include "base/time.hpp"

#include <gtest/gtest.h>

namespace vram::serve {
namespace {

TEST(Target, HasAPathAndParametersInTheirOrder) {
  const auto target = parse_target("/api/v1/processes?user=ann%20b&device=0000%3a19:00.0&x");
  ASSERT_TRUE(target) << target.error().message;
  EXPECT_EQ(target->path, "/api/v1/processes");
  EXPECT_EQ(target->query, (Query{{"user", "ann b"}, {"device", "0000:19:00.0"}, {"x", ""}}));
  EXPECT_EQ(parameter(target->query, "device"), "0000:19:00.0");
  EXPECT_EQ(parameter(target->query, "sort"), std::nullopt);
}

TEST(Target, APlusIsASpaceInParametersAlone) {
  const auto target = parse_target("/a+b?c+d=e+f");
  ASSERT_TRUE(target) << target.error().message;
  EXPECT_EQ(target->path, "/a+b");
  EXPECT_EQ(target->query, (Query{{"c d", "e f"}}));
}

TEST(Target, MayNameTheHostItself) {
  const auto target = parse_target("HTTP://evil.example:80/metrics?a=b");
  ASSERT_TRUE(target) << target.error().message;
  EXPECT_EQ(target->host, "evil.example:80");
  EXPECT_EQ(target->path, "/metrics");
  EXPECT_EQ(parse_target("http://localhost").value().path, "/");
  EXPECT_EQ(parse_target("http://localhost?a=b").value().query.size(), 1U);
}

TEST(Target, WhatIsNoPathIsRefused) {
  for (const char* text : {"", "*", "metrics", "localhost:80", "https://localhost/"})
    EXPECT_FALSE(parse_target(text)) << text;
}

TEST(Target, EscapesMustBeWholeAndNoZero) {
  for (const char* text : {"/%", "/%4", "/%zz", "/%00", "/?a=%00", "/?%g0=1", "/a%2"})
    EXPECT_FALSE(parse_target(text)) << text;
  EXPECT_FALSE(parse_target(std::string_view("/a\0b", 4)));
  EXPECT_EQ(parse_target("/%41%7a").value().path, "/Az");
}

TEST(Target, HasNoMoreThan64Parameters) {
  std::string text = "/?";
  for (int i = 0; i < 64; ++i) text += "a=1&";
  EXPECT_TRUE(parse_target(text));
  EXPECT_FALSE(parse_target(text + "a=1"));
}

TEST(AcceptsGzip, OnlyWhereItIsNamedAndNotRefused) {
  for (const char* text : {"gzip", "deflate, gzip", "GZIP;q=0.5", "x-gzip", "*", "br;q=1, *;q=0.1",
                           "identity;q=0, gzip; q=1.0"})
    EXPECT_TRUE(accepts_gzip(text)) << text;
  for (const char* text : {"", "identity", "gzip;q=0", "gzip;q=0.000", "gzipped", "*;q=0",
                           "*, gzip;q=0", "br, deflate", ",,;;"})
    EXPECT_FALSE(accepts_gzip(text)) << text;
}

TEST(IsLocalName, KnowsThisMachineFromItsOwnPointOfView) {
  for (const char* host : {"localhost", "LOCALHOST:9877", "localhost.", "gpu.localhost:1",
                           "127.0.0.1", "127.8.9.10:80", "[::1]", "[::1]:9877"})
    EXPECT_TRUE(is_local_name(host)) << host;
  for (const char* host :
       {"", "evil.example", "localhost.evil.example", "notlocalhost", "127.0.0.1.evil.example",
        "10.0.0.1", "0.0.0.0", "[::]", "[::1", "[::1]evil", "1270.0.0.1", "[fe80::1]:80", "::1"})
    EXPECT_FALSE(is_local_name(host)) << host;
}

TEST(IsTrustedHost, TakesAddressesAndTheNamesGivenAndNoOtherName) {
  const std::vector<std::string> names = {"gpu01", "Gpu01.Example.org"};
  for (const char* host : {"localhost:9877", "10.0.0.1:9877", "[fe80::1]:80", "gpu01", "GPU01:9877",
                           "gpu01.example.org.", "gpu01.example.org:1"})
    EXPECT_TRUE(is_trusted_host(host, names)) << host;
  for (const char* host : {"", "rebound.example", "gpu01.evil.example", "gpu02", "10.0.0.1.evil",
                           "xgpu01", "[gpu01", ":9877", "10.0.0.1@evil", "1.2.3"})
    EXPECT_FALSE(is_trusted_host(host, names)) << host;
}

TEST(Address, IsAnIpAndAPort) {
  const std::pair<const char*, const char*> cases[] = {{"127.0.0.1:9877", "127.0.0.1:9877"},
                                                       {"127.0.0.1", "127.0.0.1:9877"},
                                                       {"localhost:80", "127.0.0.1:80"},
                                                       {"0.0.0.0:0", "0.0.0.0:0"},
                                                       {"[::1]:65535", "[::1]:65535"},
                                                       {"[::1]", "[::1]:9877"},
                                                       {"::1", "[::1]:9877"},
                                                       {"fe80::2", "[fe80::2]:9877"}};
  for (const auto& [text, meant] : cases) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->text(), meant);
  }
}

TEST(Address, WhatIsNoneIsRefusedByName) {
  for (const char* text : {"", ":9877", "9877", "gpu01:80", "127.0.0.1:", "127.0.0.1:65536",
                           "127.0.0.1:-1", "127.0.0.1:80x", "[127.0.0.1]:80", "[::1", "1.2.3:4"}) {
    const auto address = parse_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_NE(address.error().message.find(std::string("'") + text + "'"), std::string::npos);
  }
}

TEST(IsLoopback, OnlyWhatThisMachineAloneReaches) {
  for (const char* ip : {"127.0.0.1", "127.255.0.3", "::1", "0:0:0:0:0:0:0:1"})
    EXPECT_TRUE(is_loopback(ip)) << ip;
  for (const char* ip : {"0.0.0.0", "::", "10.0.0.127", "128.0.0.1", "127.1", "", "fe80::1"})
    EXPECT_FALSE(is_loopback(ip)) << ip;
}

constexpr int64_t kNow = 1'795'338'845 * kSignedSecondNs;  // 2026-11-22 09:14:05 UTC

TEST(When, IsSecondsACalendarTimeOrSoLongAgo) {
  const std::pair<const char*, int64_t> cases[] = {
      {"0", 0},
      {"1795338845", kNow},
      {"1795338845.25", kNow + kSignedSecondNs / 4},
      {"1795338845.000000001", kNow + 1},
      {"2026-11-22T09:14:05Z", kNow},
      {"1970-01-01T00:00:01Z", kSignedSecondNs},
      {"2024-02-29T00:00:00Z", 1'709'164'800 * kSignedSecondNs},
      {"now", kNow},
      {"-0s", kNow},
      {"-1", kNow - kSignedSecondNs},
      {"-90min", kNow - 5400 * kSignedSecondNs},
      {"-1h", kNow - 3600 * kSignedSecondNs},
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
