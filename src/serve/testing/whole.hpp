// The text of an answer that is made while it is sent: for tests.
#pragma once

#include "serve/http.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vram::serve::testing {

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
