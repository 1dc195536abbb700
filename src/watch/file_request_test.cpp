#include "watch/file_request.hpp"

#include "watch/record_request.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <sys/stat.h>
#include <thread>
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

TEST_F(TakeAnswer, IsSavedCompletely) {
  const auto taken = take_answer(file("answer"), getuid());
  ASSERT_TRUE(taken);
  const auto saved = save_recording(*taken, folder_ + "/run.vtrace");
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(*saved, 8u);
  EXPECT_EQ(read_whole(folder_ + "/run.vtrace", 100).value(), "recorded");
}

// For which the process of another user has stored nothing.
TEST_F(TakeAnswer, IsNotSavedIfItHasHoles) {
  const std::string path = file("answer");
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  const auto taken = take_answer(path, getuid());
  ASSERT_TRUE(taken);
  const auto saved = save_recording(*taken, folder_ + "/run.vtrace");
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Code::kIo);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 0)
      << "nothing is left";
}

// The copy goes into a pipe, which takes the beginning alone until it is read.
TEST_F(TakeAnswer, IsNotSavedIfTheProcessChangesIt) {
  const std::string path = file("answer");
  std::ofstream process(path, std::ios::app);
  process << std::string(size_t{1} << 20, 'x') << std::flush;
  const auto taken = take_answer(path, getuid());
  ASSERT_TRUE(taken);
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread reader([&] {
    std::ifstream copy(pipe);
    process << "more" << std::flush;
    copy.ignore(std::numeric_limits<std::streamsize>::max());
  });
  const auto saved = save_recording(*taken, pipe);
  reader.join();
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find("changed"), std::string::npos) << saved.error().message;
}

TEST_F(TakeAnswer, IsNotSavedIfItIsNoFile) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor reader(ends[0]);
  const Descriptor writer(ends[1]);
  EXPECT_FALSE(save_recording(reader, folder_ + "/run.vtrace"));
}

}  // namespace
}  // namespace vram::watch
