#include "serve/secret_file.hpp"

#include "watch/testing/history_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::serve {
namespace {

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
  watch::testing::Folder folder_;
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
