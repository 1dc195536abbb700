#include "base/file.hpp"

#include "base/own_formats.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace vram {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              ("vram_file_" + std::to_string(getpid()) + "_" + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FileTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  [[nodiscard]] long count_files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

 private:
  fs::path folder_;
};

TEST_F(FileTest, AppearsOnlyWhenCommitted) {
  auto file = AtomicFile::create(path("out")).value();
  ASSERT_TRUE(file.write("half").has_value());
  EXPECT_FALSE(fs::exists(path("out")));
  ASSERT_TRUE(file.write(" and whole").has_value());
  ASSERT_TRUE(file.commit().has_value());
  EXPECT_EQ(content(path("out")), "half and whole");
  EXPECT_EQ(count_files(), 1);
}

TEST_F(FileTest, AbandonedLeavesWhatWasThere) {
  const std::string old = std::string(kVtraceStart) + "old";
  std::ofstream(path("out")) << old;
  {
    auto file = AtomicFile::create(path("out")).value();
    ASSERT_TRUE(file.write(std::string(1 << 20, 'x')).has_value());
  }
  EXPECT_EQ(content(path("out")), old);
  EXPECT_EQ(count_files(), 1);
}

TEST_F(FileTest, AMovedFileIsCommittedOnce) {
  auto first = AtomicFile::create(path("out")).value();
  ASSERT_TRUE(first.write("moved").has_value());
  AtomicFile second = std::move(first);
  ASSERT_TRUE(second.commit().has_value());
  EXPECT_EQ(content(path("out")), "moved");
}

TEST_F(FileTest, GetsOrdinaryPermissions) {
  auto file = AtomicFile::create(path("out")).value();
  ASSERT_TRUE(file.commit().has_value());
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(static_cast<unsigned>(fs::status(path("out")).permissions()), 0666U & ~mask);
}

TEST_F(FileTest, SaysWhatIsWrong) {
  const auto missing = InputFile::open(path("missing"));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_NE(missing.error().message.find("missing"), std::string::npos);
  EXPECT_NE(InputFile::open(path("")).error().message.find("directory"), std::string::npos);
  EXPECT_EQ(AtomicFile::create(path("no/such/folder")).error().code, Code::kNotFound);
}

TEST_F(FileTest, ReadsFrontToBackAndAtAnOffset) {
  std::ofstream(path("in")) << "0123456789";
  auto file = InputFile::open(path("in")).value();
  EXPECT_EQ(file.size_bytes(), 10U);
  std::array<std::byte, 4> buffer{};
  EXPECT_EQ(file.read_at(7, buffer).value(), 3U);
  EXPECT_EQ(buffer[0], std::byte{'7'});
  EXPECT_EQ(file.read(buffer).value(), 4U);
  EXPECT_EQ(buffer[0], std::byte{'0'});
  EXPECT_EQ(file.read_at(100, buffer).value(), 0U);
}

TEST_F(FileTest, AWholeFileIsReadUpToABound) {
  const std::string text(1'000'000, 'x');
  std::ofstream(path("in")) << text;
  EXPECT_EQ(read_whole(path("in"), 1'000'000).value(), text);
  const auto larger = read_whole(path("in"), 999'999);
  ASSERT_FALSE(larger.has_value());
  EXPECT_EQ(larger.error().code, Code::kTooLarge);
  EXPECT_EQ(read_whole("/dev/zero", 10).error().code, Code::kTooLarge);
  EXPECT_EQ(read_whole("/dev/null", 0).value(), "");
  EXPECT_EQ(read_whole(path("none"), 10).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace vram
