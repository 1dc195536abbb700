#include "serve/token.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sys/stat.h>

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

}  // namespace
}  // namespace vram::serve
