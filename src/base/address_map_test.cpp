#include "base/address_map.hpp"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace vram {
namespace {

TEST(AddressMap, AgreesWithAStandardMapUnderRandomUse) {
  std::mt19937_64 random(7);
  AddressMap map;
  std::unordered_map<uint64_t, uint32_t> expected;
  for (uint32_t i = 0; i < 200'000; ++i) {
    const uint64_t key = random() % 5000 * 512;
    if (random() % 3 == 0) {
      map.erase(key);
      expected.erase(key);
    } else {
      map.set(key, i);
      expected[key] = i;
    }
    const uint64_t asked = random() % 5000 * 512;
    const auto it = expected.find(asked);
    ASSERT_EQ(map.find(asked), it == expected.end() ? AddressMap::kNone : it->second);
    ASSERT_EQ(map.size(), expected.size());
  }
}

TEST(AddressMap, WhatIsTakenIsGone) {
  AddressMap map;
  map.set(512, 7);
  EXPECT_EQ(map.take(1024), AddressMap::kNone);
  EXPECT_EQ(map.take(512), 7u);
  EXPECT_EQ(map.take(512), AddressMap::kNone);
  EXPECT_EQ(map.size(), 0u);
}

TEST(AddressMap, ANumberCanBeReadAndSetInOneGo) {
  AddressMap map;
  for (uint32_t i = 0; i < 10'000; ++i) {
    uint32_t& number = map.at(i % 5000 * uint64_t{512});
    EXPECT_EQ(number, i < 5000 ? AddressMap::kNone : i - 5000);
    number = i;
  }
  EXPECT_EQ(map.size(), 5000u);
  EXPECT_EQ(map.find(512), 5001u);
}

TEST(AddressMap, ZeroIsAnOrdinaryKey) {
  AddressMap map;
  EXPECT_EQ(map.find(0), AddressMap::kNone);
  map.set(0, 3);
  EXPECT_EQ(map.find(0), 3u);
  map.erase(0);
  EXPECT_EQ(map.find(0), AddressMap::kNone);
}

}  // namespace
}  // namespace vram
