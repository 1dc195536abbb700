#include "serve/file_watch.hpp"

#include "base/testing/waiting.hpp"
#include "history/testing/history_samples.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

namespace vram::serve {
namespace {

TEST(FileWatch, TellsOfEachChangeAndOfNothingElse) {
  const history::testing::Folder folder;
  const std::string file = folder.file("token");
  std::ofstream(file) << "one";
  std::filesystem::create_symlink(file, folder.file("link"));
  const auto changes = std::make_shared<std::atomic<int>>(0);
  const auto others = std::make_shared<std::atomic<int>>(0);
  const FileWatch watch(
      {{[name = folder.file("link")] { return std::vector{name}; }, [changes] { ++*changes; }},
       {[name = folder.file("none")] { return std::vector{name}; }, [others] { ++*others; }}},
      std::chrono::milliseconds(5));
  EXPECT_TRUE(eventually([&] { return *changes == 1 && *others == 1; }))
      << "they may have changed since they were read";
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(*changes, 1);
  const auto expect_change = [&](const char* what, auto change) {
    const int before = *changes;
    change();
    EXPECT_TRUE(eventually([&] { return *changes > before; }, std::chrono::seconds(10))) << what;
  };
  expect_change("the size", [&] { std::ofstream(file) << "another"; });
  expect_change("another file of that name", [&] {
    std::ofstream(folder.file("next")) << "another";
    std::filesystem::rename(folder.file("next"), file);
  });
  expect_change("who may read it",
                [&] { std::filesystem::permissions(file, std::filesystem::perms::owner_read); });
  expect_change("none", [&] { std::filesystem::remove(file); });
  EXPECT_EQ(*others, 1);
}

}  // namespace
}  // namespace vram::serve
