#include "serve/token.hpp"

#include "history/testing/history_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace vram::serve
