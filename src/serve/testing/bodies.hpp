// One gzip member unpacked, as a client would: for tests.
#pragma once

#include "serve/http.hpp"

#include <gtest/gtest.h>

#include <string>

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

// The text of an answer that is made while it is sent: for tests.

inline std::string whole(const Response& response) {
  EXPECT_EQ(response.status, 200);
  if (!response.stream) {
    ADD_FAILURE() << "expected a stream, found: " << response.body->text();
    return "";
  }
  std::string text;
  while (true) {
    const auto piece = response.stream->next();
    if (!piece) {
      ADD_FAILURE() << piece.error().message;
      return text;
    }
    if (piece->empty()) return text;
    text += *piece;
  }
}

}  // namespace vram::serve::testing
