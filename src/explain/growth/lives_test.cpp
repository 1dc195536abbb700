#include "explain/growth/lives.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace vram::explain {
namespace {

constexpr uint32_t kMinAge = 3;

// Of `freed` blocks each outlives one end more than `least`, up to `longest`, again and again, and
// is freed in a step of its own. `alive` outlived `age` ends.
std::vector<Life> lives_of(uint32_t freed, uint32_t longest, uint32_t alive, uint32_t age) {
  std::vector<Life> lives;
  for (uint32_t i = 0; i < freed; ++i)
    lives.push_back({longest - i % (longest - kMinAge + 1), 100 + i, longest});
  for (uint32_t i = 0; i < alive; ++i) lives.push_back({age, Life::kAlive, longest});
  return lives;
}

TEST(SameFate, IsTheChanceThatNoneIsFreedBeyondTheLongest) {
  // Two blocks that are freed at the age 4, and one that outlived 4 ends more. Of the seven ends
  // that they outlived at the age 4 or later, four are beyond it.
  std::vector<Life> lives = {{4, 10, 4}, {4, 11, 4}, {8, Life::kAlive, 4}};
  EXPECT_NEAR(same_fate_probability(lives, kMinAge), 2 * std::pow(3.0 / 7, 2), 1e-12);
  // A single one that became so old made that age, and counts in no test.
  lives = {{3, 9, 4}, {3, 10, 4}, {4, 11, 4}, {8, Life::kAlive, 4}};
  EXPECT_NEAR(same_fate_probability(lives, kMinAge), 2 * std::pow(6.0 / 10, 2), 1e-12);
}

TEST(SameFate, IsUnlikelyWhereManyAreFreedAndTheOldestNever) {
  EXPECT_LT(same_fate_probability(lives_of(20, 6, 20, 60), kMinAge), 1e-6);
  EXPECT_GT(same_fate_probability(lives_of(20, 6, 20, 7), kMinAge), 0.05) << "hardly older";
  EXPECT_GT(same_fate_probability(lives_of(2, 6, 20, 12), kMinAge), 0.1) << "few are freed";
}

TEST(SameFate, ACollectionCountsOnce) {
  std::vector<Life> lives = lives_of(20, 6, 20, 30);
  const double apart = same_fate_probability(lives, kMinAge);
  for (Life& l : lives) {
    if (l.death != Life::kAlive) l.death = 100;
  }
  EXPECT_EQ(same_fate_probability(lives, kMinAge), 1.0) << apart;
}

TEST(SameFate, IsKnownWithoutDeaths) {
  EXPECT_EQ(same_fate_probability({}, kMinAge), 1.0);
  EXPECT_EQ(same_fate_probability(lives_of(0, 3, 10, 20), kMinAge), 1.0);
}

}  // namespace
}  // namespace vram::explain
