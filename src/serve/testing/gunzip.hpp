// One gzip member unpacked, as a client would: for tests.
#pragma once

#define ZLIB_CONST
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace vram::serve::testing {

inline std::string gunzip(const std::string& packed) {
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

}  // namespace vram::serve::testing
