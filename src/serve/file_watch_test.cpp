#include "serve/file_watch.hpp"

#include "base/testing/waiting.hpp"
#include "watch/testing/history_samples.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

namespace vram::serve {
namespace {

TEST(FileWatch, TellsOfEachChangeAndOfNothingElse) {
  const watch::testing::Folder folder;
  const std::string file = folder.file("token");
  std::ofstream(file) << "one";
  std::filesystem::create_symlink(file, folder.file("link"));
  const auto changes = std::make_shared<std::atomic<int>>(0);
  const auto others = std::make_shared<std::atomic<int>>(0);
  const FileWatch watch(
      {{[name = folder.file("link")] { return std::vector{name}; }, [changes] { ++*changes; }},
       {[name = folder.file("none")] { return std::vector{name}; }, [others] { ++*others; }}},
      std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(*changes, 0);
  std::ofstream(file) << "another";
  EXPECT_TRUE(eventually([&] { return *changes >= 1; })) << "the size";
  const int before = *changes;
  std::ofstream(folder.file("next")) << "another";
  std::filesystem::rename(folder.file("next"), file);
  EXPECT_TRUE(eventually([&] { return *changes > before; })) << "another file of that name";
  const int renamed = *changes;
  std::filesystem::remove(file);
  EXPECT_TRUE(eventually([&] { return *changes > renamed; })) << "none";
  EXPECT_EQ(*others, 0);
}

}  // namespace
}  // namespace vram::serve
