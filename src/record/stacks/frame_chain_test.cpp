// FrameChain against stacks that grow, shrink, and take the same addresses again, as those of an
// interpreter.
#include "record/stacks/frame_chain.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace vram::record {
namespace {

constexpr FrameLayout kLayout{.version = 0x030c, .code = 0, .previous = 8, .instruction = 56};

struct Frame {
  uint64_t code = 0;
  const void* previous = nullptr;
  std::array<uint64_t, 5> unused{};
  uint64_t instruction = 0;
};

// Without a stack before.
uint64_t fresh_number(const void* innermost) {
  return std::make_unique<FrameChain>()->number(kLayout, innermost);
}

// Frames are the places of an array; which ones, and in which order, is up to a test.
class FrameChainTest : public testing::Test {
 protected:
  // Outermost first.
  const void* link(const std::vector<size_t>& places) {
    const void* innermost = nullptr;
    for (const size_t place : places) {
      frames_[place].previous = innermost;
      innermost = &frames_[place];
    }
    return innermost;
  }
  uint64_t number(const void* innermost) { return chain_->number(kLayout, innermost); }
  void expect_same(const void* innermost) {
    const uint64_t expected = fresh_number(innermost);
    EXPECT_EQ(number(innermost), expected);
    EXPECT_EQ(number(innermost), expected) << "by the stack before";
  }

  std::vector<Frame> frames_ = std::vector<Frame>(2000);

 private:
  std::unique_ptr<FrameChain> chain_ = std::make_unique<FrameChain>();
};

std::vector<size_t> up_to(size_t count) {
  std::vector<size_t> places(count);
  for (size_t i = 0; i < count; ++i) places[i] = i;
  return places;
}

TEST_F(FrameChainTest, CodeInstructionAndOrderMakeTheNumber) {
  const void* const innermost = link(up_to(30));
  for (size_t i = 0; i < 30; ++i) frames_[i].code = 0x7f0000001000 + (i % 7) * 0x150;
  for (size_t i = 0; i < 30; ++i) frames_[i].instruction = frames_[i].code + (i % 5) * 2;
  std::set<uint64_t> numbers = {number(innermost)};
  for (size_t i = 0; i < 30; ++i) {
    frames_[i].instruction += 2;
    numbers.insert(number(innermost));
    EXPECT_EQ(number(innermost), fresh_number(innermost));
    frames_[i].instruction -= 2;
    frames_[i].code += 0x150;
    numbers.insert(number(innermost));
    frames_[i].code -= 0x150;
    if (i == 0) continue;
    std::swap(frames_[i], frames_[i - 1]);
    std::swap(frames_[i].previous, frames_[i - 1].previous);
    numbers.insert(number(innermost));
    std::swap(frames_[i], frames_[i - 1]);
    std::swap(frames_[i].previous, frames_[i - 1].previous);
  }
  for (size_t count = 1; count < 30; ++count) numbers.insert(number(&frames_[count - 1]));
  EXPECT_EQ(numbers.size(), 1 + 30 + 30 + 29 + 29);
  EXPECT_EQ(numbers.count(0), 0U);
}

// One frame below another changes while those inside it have the addresses that they had, as where
// a generator is resumed by another function.
TEST_F(FrameChainTest, AnotherFrameOutsideIsNoticed) {
  for (size_t i = 0; i < frames_.size(); ++i) frames_[i].code = i;
  expect_same(link({0, 1, 2, 3, 4, 5}));
  expect_same(link({0, 1, 9, 3, 4, 5}));
  expect_same(link({3, 4, 5}));
  expect_same(link({9, 3, 4, 5}));
  expect_same(link({5, 4, 3, 9}));
  expect_same(link({1, 2, 3, 4, 5, 0}));
  expect_same(nullptr);
  expect_same(link({0, 1}));
}

TEST_F(FrameChainTest, DeepStacksHaveNumbersToo) {
  for (size_t i = 0; i < frames_.size(); ++i) frames_[i].code = i;
  for (const size_t depth : {31, 32, 33, 254, 255, 256, 300, 2000, 256, 40})
    expect_same(link(up_to(depth)));
  std::vector<size_t> places = up_to(255);
  expect_same(link(places));
  places.push_back(700);
  expect_same(link(places));
}

TEST_F(FrameChainTest, TheStackBeforeDoesNotChangeTheNumber) {
  std::mt19937 random(1);
  const auto below = [&](size_t limit) { return random() % limit; };
  for (int run = 0; run < 20; ++run) {
    std::vector<size_t> places;
    std::vector<bool> is_used(frames_.size());
    for (int step = 0; step < 400; ++step) {
      for (size_t pops = below(8); pops > 0 && !places.empty(); --pops) {
        is_used[places.back()] = false;
        places.pop_back();
      }
      for (size_t pushes = below(9); pushes > 0; --pushes) {
        // Mostly the next address, sometimes any.
        size_t place = places.empty() ? 0 : (places.back() + 1) % frames_.size();
        while (is_used[place] || below(50) == 0) place = below(frames_.size());
        is_used[place] = true;
        places.push_back(place);
        frames_[place].code = below(20);
      }
      for (const size_t place : places)
        if (below(20) == 0) frames_[place].instruction = below(4);
      const void* const innermost = link(places);
      ASSERT_EQ(number(innermost), fresh_number(innermost)) << run << ", " << step;
    }
  }
}

}  // namespace
}  // namespace vram::record
