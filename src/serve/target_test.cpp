#include "serve/target.hpp"

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

}  // namespace
}  // namespace vram::serve
