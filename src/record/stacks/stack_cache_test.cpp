#include "record/stacks/stack_cache.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace vram::record {
namespace {

// How many of a loop's stacks are walked in a later step: those that the cache does not know.
int walks_of_a_step(uint32_t seed, size_t stacks) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> hashes(stacks);
  for (uint64_t& hash : hashes) hash = random();
  const auto cache = std::make_unique<StackCache>();
  int walks = 0;
  for (int step = 0; step < 3; ++step) {
    walks = 0;
    for (size_t i = 0; i < hashes.size(); ++i) {
      const auto stack = static_cast<StackId>(i + 1);
      const StackId found = cache->find(hashes[i]);
      if (found == 0) {
        ++walks;
        cache->add(hashes[i], stack);
      } else {
        EXPECT_EQ(found, stack);
      }
    }
  }
  return walks;
}

TEST(StackCache, TheStacksOfALoopAreKnownInItsLaterSteps) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    EXPECT_LE(walks_of_a_step(seed, 300), 5) << "seed " << seed;
    EXPECT_LE(walks_of_a_step(seed, 700), 20) << "seed " << seed;
  }
}

TEST(StackCache, TheOldestStackOfAFullSetGoes) {
  const auto cache = std::make_unique<StackCache>();
  for (uint64_t i = 1; i <= StackCache::kWays + 1; ++i)
    cache->add(i * StackCache::kSets, static_cast<StackId>(i));
  EXPECT_EQ(cache->find(StackCache::kSets), 0U);
  for (uint64_t i = 2; i <= StackCache::kWays + 1; ++i)
    EXPECT_EQ(cache->find(i * StackCache::kSets), i);
}

}  // namespace
}  // namespace vram::record
