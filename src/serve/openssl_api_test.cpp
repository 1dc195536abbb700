#include "serve/openssl_api.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::serve {
namespace {

TEST(OpenSslTest, SaysWhatToInstallWhereThereIsNone) {
  const auto api = OpenSsl::load({"libssl-that-is-not-there.so.3"});
  ASSERT_FALSE(api);
  EXPECT_EQ(api.error().code, Code::kUnsupported);
  EXPECT_THAT(api.error().message, ::testing::HasSubstr("libssl-that-is-not-there.so.3"));
  EXPECT_THAT(api.error().message, ::testing::HasSubstr("install it"));
  const auto other = OpenSsl::load({"libm.so.6"});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, ::testing::HasSubstr("TLS_server_method"));
}

}  // namespace
}  // namespace vram::serve
