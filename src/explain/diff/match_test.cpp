#include "explain/diff/match.hpp"

#include "base/bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

using ::testing::UnorderedElementsAre;

PeakSite site(std::vector<Frame> calls, uint64_t bytes) {
  return {.name = {}, .calls = std::move(calls), .bytes = bytes, .count = 1};
}

PeakSite block(uint64_t bytes) { return {.name = {}, .calls = {}, .bytes = bytes, .count = 1}; }

// "0-2": the first of A with the third of B; "1-": gone; "-0": new.
std::vector<std::string> matched(const std::vector<PeakSite>& a, const std::vector<PeakSite>& b,
                                 SiteBasis basis = SiteBasis::kStack) {
  std::vector<std::string> texts;
  for (const SitePair& pair : match_sites(a, b, basis)) {
    texts.push_back((pair.a ? std::to_string(*pair.a) : "") + "-" +
                    (pair.b ? std::to_string(*pair.b) : ""));
  }
  return texts;
}

TEST(MatchSites, ByLinesThatAllMoved) {
  const std::vector<PeakSite> a = {site({{"forward", "/r/m.py", 10}}, 64),
                                   site({{"forward", "/r/m.py", 11}}, 64),
                                   site({{"forward", "/r/m.py", 12}}, 64)};
  const std::vector<PeakSite> b = {site({{"forward", "/r/m.py", 12}}, 64),
                                   site({{"forward", "/r/m.py", 11}}, 64),
                                   site({{"forward", "/r/m.py", 13}}, 64)};
  EXPECT_THAT(matched(a, b), UnorderedElementsAre("0-1", "1-0", "2-2"));
}

// All sizes changed, and one place holds nothing at the new peak.
TEST(MatchSites, ByUnchangedLinesIfSizesChanged) {
  const std::vector<PeakSite> a = {site({{"forward", "/r/m.py", 10}}, 4),
                                   site({{"forward", "/r/m.py", 11}}, 8),
                                   site({{"forward", "/r/m.py", 12}}, 16)};
  const std::vector<PeakSite> b = {site({{"forward", "/r/m.py", 10}}, 8),
                                   site({{"forward", "/r/m.py", 12}}, 32)};
  EXPECT_THAT(matched(a, b), UnorderedElementsAre("0-0", "1-", "2-1"));
}

TEST(MatchSites, AnInsertedLineIsTheNewOne) {
  const std::vector<PeakSite> a = {site({{"forward", "/r/m.py", 10}}, 100),
                                   site({{"forward", "/r/m.py", 20}}, 300)};
  const std::vector<PeakSite> b = {site({{"forward", "/r/m.py", 10}}, 100),
                                   site({{"forward", "/r/m.py", 15}}, 7),
                                   site({{"forward", "/r/m.py", 23}}, 330)};
  EXPECT_THAT(matched(a, b), UnorderedElementsAre("0-0", "-1", "1-2"));
}

TEST(MatchSites, InAnotherCheckoutAndWithOtherCallers) {
  const Frame inner{"forward", "/home/me/repo/src/m.py", 10};
  const std::vector<PeakSite> a = {site({inner, {"step", "/home/me/repo/train.py", 5}}, 64)};
  const std::vector<PeakSite> other_checkout = {site(
      {{"forward", "/builds/4/repo/src/m.py", 10}, {"step", "/builds/4/repo/train.py", 5}}, 64)};
  EXPECT_THAT(matched(a, other_checkout), UnorderedElementsAre("0-0"));
  const std::vector<PeakSite> wrapped = {
      site({inner, {"wrapper", "/x/w.py", 1}, {"step", "/x/train.py", 5}}, 64)};
  EXPECT_THAT(matched(a, wrapped), UnorderedElementsAre("0-0"));
}

TEST(MatchSites, OfARenamedFile) {
  const std::vector<PeakSite> a = {
      site({{"forward", "/r/model.py", 10}, {"step", "/r/train.py", 5}}, 64),
      site({{"forward", "/r/head.py", 10}, {"step", "/r/train.py", 6}}, 8)};
  const std::vector<PeakSite> b = {
      site({{"forward", "/r/net.py", 40}, {"step", "/r/train.py", 5}}, 96),
      site({{"forward", "/r/head.py", 10}, {"step", "/r/train.py", 6}}, 8)};
  EXPECT_THAT(matched(a, b), UnorderedElementsAre("0-0", "1-1"));
}

// Two files of one base name are told apart by their folders.
TEST(MatchSites, ByFolder) {
  const std::vector<PeakSite> a = {site({{"f", "/r/x/m.py", 1}}, 10),
                                   site({{"f", "/r/y/m.py", 1}}, 20)};
  const std::vector<PeakSite> b = {site({{"f", "/r/y/m.py", 1}}, 10),
                                   site({{"f", "/r/x/m.py", 1}}, 20)};
  EXPECT_THAT(matched(a, b), UnorderedElementsAre("0-1", "1-0"));
}

TEST(MatchSites, DifferentFunctionsDoNotMatch) {
  const std::vector<PeakSite> a = {site({{"f", "/r/m.py", 1}}, 10)};
  const std::vector<PeakSite> b = {site({{"g", "/r/m.py", 1}}, 10)};
  EXPECT_THAT(matched(a, b), UnorderedElementsAre("0-", "-0"));
}

TEST(MatchSites, NamesWithTheNumberOfAnotherStep) {
  const auto named = [](const char* name) {
    return PeakSite{.name = name, .calls = {}, .bytes = 1, .count = 1};
  };
  EXPECT_THAT(matched({named("layers.1"), named("step 1"), named("head")},
                      {named("step 12"), named("layers.1"), named("layers.2"), named("neck")},
                      SiteBasis::kName),
              UnorderedElementsAre("0-1", "1-0", "2-", "-2", "-3"));
}

TEST(MatchSites, PositionsAroundAnInsertedAllocationAtTwiceTheBatch) {
  const std::vector<PeakSite> a = {block(1000), block(500), block(30), block(70), block(20)};
  const std::vector<PeakSite> b = {block(1000), block(500), block(60),
                                   block(9),    block(140), block(40)};
  EXPECT_THAT(matched(a, b, SiteBasis::kPosition),
              UnorderedElementsAre("0-0", "1-1", "2-2", "-3", "3-4", "4-5"));
}

// A program with other sizes in the same order is more likely than one with other allocations.
TEST(MatchSites, PositionsWhoseSizesRecurAtTwiceTheBatch) {
  const std::vector<PeakSite> a = {block(512), block(1024), block(1536)};
  const std::vector<PeakSite> b = {block(1024), block(2048), block(3072)};
  EXPECT_THAT(matched(a, b, SiteBasis::kPosition), UnorderedElementsAre("0-0", "1-1", "2-2"));
}

TEST(MatchSites, PositionsThatStreamsSwapped) {
  const std::vector<PeakSite> a = {block(5), block(512), block(1024), block(6)};
  const std::vector<PeakSite> b = {block(5), block(1024), block(512), block(6)};
  EXPECT_THAT(matched(a, b, SiteBasis::kPosition),
              UnorderedElementsAre("0-0", "1-2", "2-1", "3-3"));
}

TEST(MatchSites, NothingGrowsHundredfoldWithoutItsLine) {
  const std::vector<PeakSite> a = {block(10)};
  const std::vector<PeakSite> b = {block(10'000)};
  EXPECT_THAT(matched(a, b, SiteBasis::kPosition), UnorderedElementsAre("0-", "-0"));
  const std::vector<PeakSite> line_a = {site({{"f", "/r/m.py", 1}}, 10)};
  const std::vector<PeakSite> line_b = {site({{"f", "/r/m.py", 4}}, 10'000)};
  EXPECT_THAT(matched(line_a, line_b), UnorderedElementsAre("0-0"));
}

// Each site is in exactly one pair, whatever the input; and the same recording is unchanged.
TEST(MatchSites, PairsEachSiteOnce) {
  std::mt19937 random(7);
  const auto pick = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most));
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::vector<PeakSite>> sides(2);
    for (auto& side : sides) {
      const int count = pick(12);
      for (int i = 0; i < count; ++i) {
        std::vector<Frame> calls;
        const int depth = pick(4);
        for (int d = 0; d < depth; ++d)
          calls.push_back({std::string(1, static_cast<char>('f' + pick(3))),
                           pick(2) == 0 ? "/a/m.py" : "/b/n.py", static_cast<uint32_t>(pick(9))});
        side.push_back(site(std::move(calls), static_cast<uint64_t>(pick(5))));
      }
    }
    for (const SiteBasis basis : {SiteBasis::kStack, SiteBasis::kName, SiteBasis::kPosition}) {
      std::vector<int> seen_a(sides[0].size());
      std::vector<int> seen_b(sides[1].size());
      for (const SitePair& pair : match_sites(sides[0], sides[1], basis)) {
        ASSERT_TRUE(pair.a || pair.b);
        if (pair.a) ++seen_a[*pair.a];
        if (pair.b) ++seen_b[*pair.b];
      }
      EXPECT_TRUE(std::ranges::all_of(seen_a, [](int n) { return n == 1; }));
      EXPECT_TRUE(std::ranges::all_of(seen_b, [](int n) { return n == 1; }));
      for (const SitePair& pair : match_sites(sides[0], sides[0], basis)) {
        ASSERT_TRUE(pair.a && pair.b);
        EXPECT_EQ(sides[0][*pair.a].bytes, sides[0][*pair.b].bytes);
      }
    }
  }
}

// Longer than any alignment table: linear.
TEST(MatchSites, OfVeryLongSequences) {
  std::vector<PeakSite> a;
  for (uint64_t i = 0; i < 100'000; ++i) a.push_back(block(i % 97));
  std::vector<PeakSite> b = a;
  b.insert(b.begin() + 50'000, block(kGiB));
  const auto pairs = match_sites(a, b, SiteBasis::kPosition);
  EXPECT_EQ(pairs.size(), b.size());
  const auto added = std::ranges::find_if(pairs, [](const SitePair& pair) { return !pair.a; });
  ASSERT_NE(added, pairs.end());
  EXPECT_EQ(added->b, 50'000U);
}

}  // namespace
}  // namespace vram::explain
