#include "watch/users.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

namespace vram::watch {
namespace {

using std::chrono::milliseconds;
using Name = std::optional<std::string>;

bool comes_true(const std::function<bool()>& holds) {
  for (int i = 0; i < 60'000 && !holds(); ++i) std::this_thread::sleep_for(milliseconds(1));
  return holds();
}

// Answers that a test holds back.
struct Directory {
  std::promise<void> comes_back;
  std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);

  UserSettings settings() {
    return {.ask =
                [back = comes_back.get_future().share(), count = asked](uint32_t uid) {
                  ++*count;
                  back.wait();
                  return uid == 7 ? Name("ann") : std::nullopt;
                },
            .timeout = milliseconds(1)};
  }
};

TEST(Users, TheSystemIsAsked) {
  Users users;
  EXPECT_EQ(users.name(0), "root");
  EXPECT_EQ(users.name(3'999'999'999), std::nullopt);
}

TEST(Users, ANameThatIsLongInComingComesLater) {
  Directory directory;
  Users users(directory.settings());
  EXPECT_EQ(users.name(7), std::nullopt);
  EXPECT_EQ(users.name(8), std::nullopt);
  directory.comes_back.set_value();
  EXPECT_TRUE(comes_true([&] { return users.name(7) == "ann"; }));
  EXPECT_EQ(*directory.asked <= 2, true) << "each once";
}

// Hundreds of users that a directory is slow to name delay a sample no more than one does.
TEST(Users, OfAllQuestionsTogetherSoMuchIsWaitedFor) {
  Directory directory;
  UserSettings settings = directory.settings();
  settings.timeout = milliseconds(300);
  const auto begin = std::chrono::steady_clock::now();
  {
    Users users(settings);
    for (uint32_t uid = 0; uid < 1'000; ++uid) EXPECT_EQ(users.name(uid), std::nullopt);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60))
      << "and its end waits for no answer";
  directory.comes_back.set_value();
}

TEST(Users, WhereNoNameWasFoundItIsAskedAgain) {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  Users users({.ask = [asked](uint32_t) { return ++*asked < 3 ? std::nullopt : Name("ann"); },
               .nameless_for = milliseconds(0)});
  EXPECT_TRUE(comes_true([&] { return users.name(7) == "ann"; }));
  EXPECT_EQ(users.name(7), "ann");
  EXPECT_EQ(*asked, 3) << "a name stays for longer";
}

TEST(Users, ANameStaysWhileTheDirectoryIsAway) {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  Users users({.ask = [asked](uint32_t) { return ++*asked == 1 ? Name("ann") : std::nullopt; },
               .named_for = milliseconds(0)});
  EXPECT_EQ(users.name(7), "ann");
  EXPECT_TRUE(comes_true([&] { return users.name(7) == "ann" && *asked >= 2; }));
  EXPECT_EQ(users.name(7), "ann");
}

}  // namespace
}  // namespace vram::watch
