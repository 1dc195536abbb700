#include "base/settings_file.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace vram {
namespace {

class SettingsFileTest : public ::testing::Test {
 protected:
  ~SettingsFileTest() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string file(const std::string& content) const {
    std::string path = folder_ / "settings";
    std::ofstream(path) << content;
    return path;
  }
  const std::filesystem::path folder_ = [] {
    std::string name = std::filesystem::temp_directory_path() / "settings-XXXXXX";
    return std::filesystem::path(mkdtemp(name.data()));
  }();
};

TEST_F(SettingsFileTest, IsReadWholeWithItsPermissions) {
  const std::string content(100'000, 'x');
  const std::string path = file(content);
  chmod(path.c_str(), 0640);
  const auto found = read_settings(path, 100'000);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->text, content);
  EXPECT_EQ(found->mode, 0640U);
  EXPECT_EQ(read_settings(path, 99'999).error().code, Code::kTooLarge);
}

TEST_F(SettingsFileTest, WhatIsNoPlainFileIsRefusedAtOnce) {
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, folder_.string(), std::string("/dev/null")}) {
    const auto found = read_settings(path, 100);
    ASSERT_FALSE(found) << path;
    EXPECT_EQ(found.error().code, Code::kBadInput);
    EXPECT_NE(found.error().message.find("no plain file"), std::string::npos);
  }
  EXPECT_EQ(read_settings(folder_ / "none", 100).error().code, Code::kNotFound);
}

// A thread that has not begun after no time at all is as one that hangs.
// A read may be quicker than no patience at all, but not each of so many.
TEST_F(SettingsFileTest, NoAnswerInTimeIsAnError) {
  const std::string path = file("x");
  const auto read = [&] { return read_settings(path, 100, std::chrono::milliseconds(-1)); };
  auto found = read();
  for (int i = 0; i < 1000 && found; ++i) found = read();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kIo);
  EXPECT_NE(found.error().message.find("no answer within"), std::string::npos);
}

}  // namespace
}  // namespace vram
