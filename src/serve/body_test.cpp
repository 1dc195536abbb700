#include "serve/body.hpp"

#include "serve/testing/gunzip.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace vram::serve
