#include "serve/body.hpp"

#include "serve/testing/bodies.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vram::serve {
namespace {

using testing::gunzip;

TEST(Body, ComesBackWholeFromGzip) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += "vram_memory_used_bytes " + std::to_string(i * 7919) + "\n";
  const Body body(text);
  EXPECT_LT(body.gzipped().size(), text.size() / 2);
  EXPECT_EQ(gunzip(body.gzipped()), text);
  EXPECT_EQ(body.text(), text);
}

TEST(Body, IsPackedOnce) {
  const Body body(std::string(5000, 'a'));
  EXPECT_FALSE(body.is_packed());
  EXPECT_EQ(body.size_bytes(), 5000U);
  EXPECT_EQ(body.gzipped().data(), body.gzipped().data());
  EXPECT_TRUE(body.is_packed());
  EXPECT_EQ(body.size_bytes(), 5000U + body.gzipped().size());
}

TEST(Body, TinyOnesAreNotPacked) {
  EXPECT_EQ(Body(std::string(1000, 'a')).gzipped(), "");
  EXPECT_EQ(Body("").gzipped(), "");
}

TEST(Gzip, TakesTheEmptyText) { EXPECT_EQ(gunzip(gzip("")), ""); }

using testing::gunzip;

std::string packed(const std::vector<std::string>& pieces, Deflater& deflater) {
  GzipStream stream;
  std::string all;
  for (size_t i = 0; i < pieces.size(); ++i)
    all += stream.pack(pieces[i], i + 1 == pieces.size(), deflater);
  return all;
}

TEST(GzipStream, PiecesAreOneMember) {
  Deflater deflater;
  std::string large;
  for (int i = 0; i < 20'000; ++i) large += std::to_string(i * i);
  for (const std::vector<std::string>& pieces :
       {std::vector<std::string>{""}, {"abc"}, {"abc", ""}, {"", "abc"}, {large, "x", large, ""}}) {
    std::string whole;
    for (const std::string& piece : pieces) whole += piece;
    EXPECT_EQ(gunzip(packed(pieces, deflater)), whole);
  }
  EXPECT_LT(packed({large, large}, deflater).size(), large.size());
}

TEST(GzipStream, StreamsMayTakeTurnsWithOneDeflater) {
  Deflater deflater;
  GzipStream one;
  GzipStream two;
  std::string first = one.pack("first ", false, deflater);
  std::string second = two.pack("second ", false, deflater);
  first += one.pack("end", true, deflater);
  second += two.pack("end", true, deflater);
  EXPECT_EQ(gunzip(first), "first end");
  EXPECT_EQ(gunzip(second), "second end");
}

}  // namespace
}  // namespace vram::serve
