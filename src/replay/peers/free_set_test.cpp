#include "replay/peers/free_set.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace vram::replay {
namespace {

// Against std::set, with few sizes (many ties) and with many.
class FreeSetAgainstStd : public testing::TestWithParam<uint64_t> {};

TEST_P(FreeSetAgainstStd, FindsWalksInsertsAndErasesAlike) {
  std::mt19937_64 random(GetParam());
  FreeSet set;
  std::set<std::pair<uint64_t, uint64_t>> expected;
  for (uint32_t i = 0; i < 60'000; ++i) {
    const uint64_t size = random() % GetParam();
    const bool grows = (i / 5000) % 2 == 0 ? random() % 3 != 0 : random() % 3 == 0;
    if (grows || expected.empty()) {
      const uint64_t address = random() % 100'000;
      if (expected.emplace(size, address).second) set.insert({size, address, i});
    } else {
      auto it = expected.lower_bound({size, 0});
      if (it == expected.end()) it = expected.begin();
      set.erase(it->first, it->second);
      expected.erase(it);
    }
    ASSERT_EQ(set.size(), expected.size());
    const auto it = expected.lower_bound({size, 0});
    const FreeSet::Cursor at = set.at_least(size);
    ASSERT_EQ(set.is_end(at), it == expected.end());
    if (!set.is_end(at)) {
      ASSERT_EQ(std::make_pair(set[at].size_bytes, set[at].address), *it);
    }
    ASSERT_EQ(set.largest() == nullptr, expected.empty());
    if (!expected.empty()) {
      ASSERT_EQ(set.largest()->address, expected.rbegin()->second);
    }
    if (i % 1000 != 0) continue;
    FreeSet::Cursor walk = set.begin();
    for (const auto& [bytes, address] : expected) {
      ASSERT_EQ(set[walk].size_bytes, bytes);
      ASSERT_EQ(set[walk].address, address);
      walk = set.next(walk);
    }
    ASSERT_TRUE(set.is_end(walk));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, FreeSetAgainstStd,
                         testing::Values(3, 50, 1'000'000, uint64_t{1} << 50));

}  // namespace
}  // namespace vram::replay
