#include "base/threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

namespace vram {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kTimeout = seconds(30);  // a machine may be busy

// What the work owns; its end takes long enough to be overtaken.
struct OwnedByThread {
  explicit OwnedByThread(std::atomic<bool>& flag) : is_gone(flag) {}
  OwnedByThread(const OwnedByThread&) = delete;
  OwnedByThread& operator=(const OwnedByThread&) = delete;
  ~OwnedByThread() {
    std::this_thread::sleep_for(milliseconds(20));
    is_gone = true;
  }
  std::atomic<bool>& is_gone;
};

TEST(DetachableThread, WhatTheWorkOwnedIsGoneWhenItIsJoined) {
  std::atomic<bool> is_gone = false;
  std::atomic<bool> is_done = false;
  DetachableThread thread(
      [owned = std::make_shared<OwnedByThread>(is_gone), &is_done] { is_done = true; });
  EXPECT_TRUE(thread.join_for(kTimeout));
  EXPECT_TRUE(is_done);
  EXPECT_TRUE(is_gone);
  EXPECT_TRUE(thread.join_for(seconds(0)));  // joined already
}

TEST(DetachableThread, WorkThatHangsIsLeftBehindWithWhatItOwns) {
  auto door = std::make_shared<std::promise<void>>();
  auto passed = std::make_shared<std::promise<void>>();
  auto has_passed = passed->get_future();
  {
    DetachableThread thread([open = door->get_future().share(), passed = std::move(passed)] {
      open.wait();
      passed->set_value();
    });
    EXPECT_FALSE(thread.join_for(milliseconds(5)));
    EXPECT_FALSE(thread.join_for(milliseconds(5)));  // asking again is allowed
  }
  door->set_value();
  EXPECT_EQ(has_passed.wait_for(kTimeout), std::future_status::ready);
}

}  // namespace
}  // namespace vram
