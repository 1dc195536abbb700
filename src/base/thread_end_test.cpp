// Hooks at the end of a thread, and what threads own.
#include "base/thread_end.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace vram {
namespace {

std::atomic<int> living{0};
std::string order;

struct Owned {
  Owned() { ++living; }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    --living;
    order += "owned ";
  }
  int value = 7;
};

constinit thread_local ThreadOwned<Owned> owned;
static_assert(std::is_trivially_destructible_v<ThreadOwned<Owned>>);

// Made before what the thread owns, so destroyed after everything made later.
struct Late {
  bool is_used = false;
  Late() = default;
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;
  ~Late() {
    if (is_used && owned.get() != nullptr)
      order += "late " + std::to_string(owned.get()->value) + " ";
  }
};
thread_local Late late;

TEST(ThreadOwned, OutlivesTheThreadsOtherVariables) {
  order.clear();
  std::thread([] {
    late.is_used = true;
    EXPECT_EQ(owned.peek(), nullptr);
    EXPECT_EQ(owned.get()->value, 7);
    EXPECT_EQ(owned.peek(), owned.get());
  }).join();
  EXPECT_EQ(order, "late 7 owned ");
  EXPECT_EQ(living, 0);
}

TEST(ThreadEnd, AfterTheHooksNoneIsTaken) {
  static constinit thread_local ThreadEndHook first;
  static constinit thread_local ThreadEndHook second;
  static std::atomic<int> runs{0};
  static std::atomic<bool> is_taken{true};
  std::thread([] {
    first.run = [](void*) {
      ++runs;
      second.run = [](void*) { ++runs; };
      is_taken = at_thread_end(second);
    };
    EXPECT_TRUE(at_thread_end(first));
  }).join();
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(is_taken);
}

// The numbers of so many threads that live side by side.
std::vector<uint32_t> numbers_of(size_t threads) {
  std::vector<uint32_t> numbers(threads);
  std::barrier together(static_cast<std::ptrdiff_t>(threads));
  std::vector<std::jthread> all;
  for (uint32_t& number : numbers) {
    all.emplace_back([&] {
      number = thread_number();
      EXPECT_EQ(thread_number(), number) << "it stays the same";
      together.arrive_and_wait();
    });
  }
  all.clear();
  return numbers;
}

TEST(ThreadNumber, ThreadsThatLiveSideBySideHaveDifferentOnes) {
  const uint32_t own = thread_number();
  for (int round = 0; round < 20; ++round) {
    const std::vector<uint32_t> numbers = numbers_of(8);
    EXPECT_EQ(std::set<uint32_t>(numbers.begin(), numbers.end()).size(), 8u);
    EXPECT_EQ(std::ranges::count(numbers, own), 0);
    EXPECT_LE(std::ranges::max(numbers), 8u) << "those of threads that have ended come again";
  }
}

TEST(ThreadNumber, MoreThreadsThanNumbersShare) {
  const std::vector<uint32_t> numbers = numbers_of(kThreadNumbers + 20);
  EXPECT_EQ(std::set<uint32_t>(numbers.begin(), numbers.end()).size(), kThreadNumbers);
  EXPECT_LT(std::ranges::max(numbers), kThreadNumbers);
  EXPECT_LE(std::ranges::max(numbers_of(4)), 4u) << "none is lost";
}

}  // namespace
}  // namespace vram
