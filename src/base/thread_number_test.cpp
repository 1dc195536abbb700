#include "base/thread_number.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <set>
#include <thread>
#include <vector>

namespace vram {
namespace {

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
