#include "serve/users.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace vram::serve {
namespace {

// "alice:open sesame" and others, by bcrypt of cost 4.
constexpr const char* kRight = "Basic YWxpY2U6b3BlbiBzZXNhbWU=";
constexpr const char* kWrong = "Basic YWxpY2U6b3BlbiBzZXNhbWV4";  // …sesamex
constexpr const char* kNobody = "Basic Ym9iOm9wZW4gc2VzYW1l";     // bob
const std::string kSettings = "$2b$04$abcdefghijklmnopqrstuu";

class UsersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Bcrypt::library()) GTEST_SKIP() << Bcrypt::library().error().message;
    users_ = Users::of({{"alice", Bcrypt::library()->hash("open sesame", kSettings)}}).value();
  }
  std::shared_ptr<Users> users_;
};

TEST_F(UsersTest, APasswordIsCheckedOnceAndThenKnown) {
  EXPECT_EQ(users_->accepts_authorization(kRight), std::nullopt);
  EXPECT_TRUE(users_->check(kRight));
  EXPECT_EQ(users_->accepts_authorization(kRight), true);
  EXPECT_EQ(users_->accepts_authorization("basic YWxpY2U6b3BlbiBzZXNhbWU="), true)
      << "the scheme in any case";
  EXPECT_EQ(users_->accepts_authorization(kWrong), std::nullopt);
  EXPECT_FALSE(users_->check(kWrong));
  EXPECT_EQ(users_->accepts_authorization(kRight), true) << "a wrong one changes nothing";
}

TEST_F(UsersTest, AnUnknownNameIsCheckedAllTheSame) {
  EXPECT_EQ(users_->accepts_authorization(kNobody), std::nullopt);
  EXPECT_FALSE(users_->check(kNobody));
}

TEST_F(UsersTest, WhatIsNoNameAndPasswordIsWrongAtOnce) {
  for (const char* text : {"", "Basic", "Basic ", "Basic %%%%",
                           "Basic YWxpY2U=", "Bearer YWxpY2U6eA==", "Basic YWxpY2U6b3BlbiBzZXNhbWU",
                           "Basic YWxpY2U6AG9wZW4="}) {
    EXPECT_EQ(users_->accepts_authorization(text), false) << text;
    EXPECT_FALSE(users_->check(text)) << text;
  }
}

TEST(BcryptTest, SaysWhatToInstallWhereThereIsNone) {
  const auto bcrypt = Bcrypt::load({"libcrypt-that-is-not-there.so.1", "libm.so.6"});
  ASSERT_FALSE(bcrypt);
  EXPECT_EQ(bcrypt.error().code, Code::kUnsupported);
  EXPECT_THAT(bcrypt.error().message, ::testing::HasSubstr("install it"));
}

}  // namespace
}  // namespace vram::serve
