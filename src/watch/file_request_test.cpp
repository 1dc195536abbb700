#include "watch/file_request.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::watch {
namespace {

class TakeAnswer : public ::testing::Test {
 protected:
  TakeAnswer() { std::filesystem::create_directories(folder_); }
  ~TakeAnswer() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string file(const char* name) const {
    std::ofstream(folder_ + "/" + name) << "recorded";
    return folder_ + "/" + name;
  }

  const std::string folder_ = ::testing::TempDir() + "take_answer." + std::to_string(getpid());
};

TEST_F(TakeAnswer, ReadsAFileAndRemovesItsName) {
  const std::string path = file("answer");
  const auto taken = take_answer(path, getuid());
  ASSERT_TRUE(taken);
  char text[16] = {};
  EXPECT_EQ(read(taken->number(), text, sizeof text), 8);
  EXPECT_STREQ(text, "recorded");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(TakeAnswer, RefusesALinkAPipeAndOthersFiles) {
  const std::string secret = file("secret");
  std::filesystem::create_symlink(secret, folder_ + "/link");
  std::filesystem::create_hard_link(secret, folder_ + "/second_name");
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "second_name", "pipe"}) {
    EXPECT_FALSE(take_answer(folder_ + "/" + name, getuid())) << name;
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(folder_ + "/" + name)));
  }
  EXPECT_FALSE(take_answer(file("answer"), getuid() + 1));
  EXPECT_TRUE(std::filesystem::exists(secret));
}

}  // namespace
}  // namespace vram::watch
