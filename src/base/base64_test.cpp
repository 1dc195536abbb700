#include "base/base64.hpp"

#include <gtest/gtest.h>

namespace vram {
namespace {

// The test vectors of RFC 4648.
TEST(Base64, PadsToGroupsOfFour) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfb\xfe"), "//v+");
}

}  // namespace
}  // namespace vram
