#include "serve/credentials.hpp"

#include "history/testing/history_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::serve {
namespace {

constexpr const char* kTokenSecret = "0123456789abcdef0123456789abcdef";

class TokenFile : public ::testing::Test {
 protected:
  TokenFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "vram-token-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~TokenFile() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& content, mode_t mode = 0600) const {
    std::string path = folder_ + "/token";
    std::ofstream(path) << content;
    chmod(path.c_str(), mode);
    return path;
  }

  std::string folder_;
};

TEST_F(TokenFile, IsOneLine) {
  EXPECT_EQ(read_token(file(std::string(kTokenSecret) + "\n")).value(), kTokenSecret);
  EXPECT_EQ(read_token(file(kTokenSecret, 0400)).value(), kTokenSecret);
}

TEST_F(TokenFile, ThatOthersMayReadIsRefusedWithWhatToDo) {
  for (const mode_t mode : {0640, 0604, 0660, 0644}) {
    const auto token = read_token(file(kTokenSecret, mode));
    ASSERT_FALSE(token);
    EXPECT_NE(token.error().message.find("chmod 600"), std::string::npos);
    EXPECT_EQ(token.error().message.find(kTokenSecret), std::string::npos);
  }
}

TEST_F(TokenFile, WithoutATokenIsRefusedAndKeepsItsContentToItself) {
  for (const std::string& content :
       {std::string(), std::string("short-secret\n"), std::string("two words of a secret"),
        std::string(600, 'a'), std::string("a\0b3456789012345678", 19)}) {
    const auto token = read_token(file(content));
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().message.find("secret\n"), std::string::npos);
    EXPECT_EQ(token.error().message.find("words of"), std::string::npos);
  }
}

TEST_F(TokenFile, ThatIsNoFileIsRefused) {
  EXPECT_FALSE(read_token(folder_));
  EXPECT_FALSE(read_token(folder_ + "/none"));
}

TEST(Token, LetsInWhoShowsIt) {
  Token token{kTokenSecret};
  EXPECT_TRUE(token.is_wanted());
  EXPECT_TRUE(token.accepts_authorization(std::string("Bearer ") + kTokenSecret));
  EXPECT_TRUE(token.accepts_authorization(std::string("bearer ") + kTokenSecret));
}

TEST(Token, NobodyElse) {
  Token token{kTokenSecret};
  const std::string secret = kTokenSecret;
  for (const std::string& shown :
       {std::string(), std::string("Bearer "), std::string("Bearer"), secret, "Basic " + secret,
        "Bearer  " + secret, "Bearer " + secret + "0", "Bearer " + secret + secret,
        "Bearer " + secret.substr(1), "Bearer 1" + secret.substr(1),
        "Bearer " + secret.substr(0, 31) + "0"})
    EXPECT_FALSE(token.accepts_authorization(shown)) << shown;
}

TEST(Token, CanBeReplaced) {
  Token token{kTokenSecret};
  EXPECT_TRUE(token.replace("another-secret-of-32-characters!"));
  EXPECT_FALSE(token.replace("another-secret-of-32-characters!"));
  EXPECT_FALSE(token.accepts_authorization(std::string("Bearer ") + kTokenSecret));
  EXPECT_TRUE(token.accepts_authorization("Bearer another-secret-of-32-characters!"));
}

TEST(Token, WithoutOneEverybodyIsLetIn) {
  EXPECT_FALSE(Token("").is_wanted());
  EXPECT_TRUE(Token("").accepts_authorization(""));
  EXPECT_TRUE(Token("").accepts_authorization("Bearer whatever"));
}

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kUrl = "http://ann:hunter2@127.0.0.1:9093/prefix";

class SecretFile : public ::testing::Test {
 protected:
  std::string file(const std::string& content, mode_t mode = 0600) const {
    std::string path = folder_.file("url");
    std::ofstream(path) << content;
    chmod(path.c_str(), mode);
    return path;
  }
  history::testing::Folder folder_;
};

TEST_F(SecretFile, AUrlIsTakenAsItIsGiven) { EXPECT_EQ(url_of(kUrl).value(), kUrl); }

TEST_F(SecretFile, AUrlMayBeTheLineInAFile) {
  EXPECT_EQ(url_of("@" + file(std::string(kUrl) + "\n")).value(), kUrl);
  EXPECT_EQ(url_of("@" + file(std::string(kUrl) + "\r\n", 0400)).value(), kUrl);
}

TEST_F(SecretFile, WhatIsNoUrlIsRefusedAndNotRepeated) {
  for (const std::string& content :
       {std::string(), std::string("\n"), std::string(kUrl) + "\n" + kUrl,
        "hunter2 " + std::string(kUrl), std::string(kUrl) + std::string(5'000, 'x'),
        std::string(kUrl) + '\x01'}) {
    const auto url = url_of("@" + file(content));
    ASSERT_FALSE(url);
    EXPECT_THAT(url.error().message, HasSubstr("has no URL: expected one line"));
    EXPECT_THAT(url.error().message, Not(HasSubstr("hunter2")));
  }
}

TEST_F(SecretFile, ThatOthersMayReadOrThatIsNoneIsRefused) {
  EXPECT_THAT(url_of("@" + file(kUrl, 0644)).error().message, HasSubstr("chmod 600"));
  EXPECT_FALSE(url_of("@" + folder_.file("none")));
  EXPECT_FALSE(url_of("@" + folder_.path().string()));
  EXPECT_FALSE(url_of("@"));
}

TEST_F(SecretFile, ThatAnotherUserOwnsIsRefused) {
  const std::string path = file(kUrl);
  if (chown(path.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root can give a file away";
  EXPECT_THAT(url_of("@" + path).error().message, HasSubstr("belongs to user 12345"));
}

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
