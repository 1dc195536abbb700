#include "serve/body.hpp"

#define ZLIB_CONST
#include <gtest/gtest.h>
#include <zlib.h>

namespace vram::serve {
namespace {

// As a client would.
std::string unpacked(const std::string& packed) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string text(1 << 20, '\0');
  stream.next_in = reinterpret_cast<const Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0U);
  text.resize(stream.total_out);
  (void)inflateEnd(&stream);
  return text;
}

TEST(Body, ComesBackWholeFromGzip) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += "vram_memory_used_bytes " + std::to_string(i * 7919) + "\n";
  const Body body(text);
  EXPECT_LT(body.gzipped().size(), text.size() / 2);
  EXPECT_EQ(unpacked(body.gzipped()), text);
  EXPECT_EQ(body.text(), text);
}

TEST(Body, IsPackedOnce) {
  const Body body(std::string(5000, 'a'));
  EXPECT_EQ(body.gzipped().data(), body.gzipped().data());
}

TEST(Body, TinyOnesAreNotPacked) {
  EXPECT_EQ(Body(std::string(1000, 'a')).gzipped(), "");
  EXPECT_EQ(Body("").gzipped(), "");
}

TEST(Gzip, TakesTheEmptyText) { EXPECT_EQ(unpacked(gzip("")), ""); }

}  // namespace
}  // namespace vram::serve
