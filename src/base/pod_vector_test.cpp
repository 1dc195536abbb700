#include "base/pod_vector.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace vram {
namespace {

TEST(PodVector, HoldsWhatAVectorWould) {
  PodVector<uint32_t> pods;
  std::vector<uint32_t> expected;
  for (uint32_t i = 0; i < 100'000; ++i) {
    pods.push_back(i * 7);
    expected.push_back(i * 7);
  }
  pods.append(expected.data(), 1000);
  expected.insert(expected.end(), expected.begin(), expected.begin() + 1000);
  pods.resize(pods.size() + 3);
  expected.resize(expected.size() + 3);
  EXPECT_TRUE(std::equal(pods.begin(), pods.end(), expected.begin(), expected.end()));
  pods.truncate(5);
  EXPECT_EQ(pods.size(), 5U);
}

TEST(PodVector, TakesItsOwnElements) {
  PodVector<uint64_t> pods;
  pods.push_back(42);
  for (int i = 0; i < 1000; ++i) pods.push_back(pods[0]);
  for (const uint64_t value : pods) EXPECT_EQ(value, 42U);
}

TEST(PodVector, MovesWithoutCopies) {
  PodVector<int> first;
  first.push_back(1);
  const int* place = first.data();
  PodVector<int> second = std::move(first);
  EXPECT_EQ(second.data(), place);
  first = std::move(second);
  EXPECT_EQ(first.data(), place);
}

}  // namespace
}  // namespace vram
