#include "show/top/rows.hpp"

#include "base/bytes.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace vram::show::top {
namespace {

using ::testing::ElementsAre;

struct Born {
  uint32_t pid;
  uint32_t parent;
  std::optional<uint64_t> used;
  uint64_t start = 0;  // 0: as the pid
};

watch::Snapshot machine(const std::vector<Born>& processes) {
  watch::Snapshot snapshot;
  for (const Born& born : processes) {
    watch::Process process = testing::user_process(born.pid, "ann", "python");
    watch::ProcessFacts& facts = process.facts.edit();
    facts.parent_pid = born.parent;
    facts.start_ticks = born.start > 0 ? born.start : born.pid;
    watch::Use use;
    use.process.used_bytes = born.used;
    process.uses = {use};
    snapshot.processes.push_back(process);
  }
  return snapshot;
}

// "7", or in a tree "└─ 7": what stands before the command, and the pid.
std::vector<std::string> drawn(const watch::Snapshot& snapshot, const RowOrder& order) {
  std::vector<std::string> texts;
  for (const Row& row : rows_of(snapshot, Filter(), std::nullopt, order))
    texts.push_back(row.branch + std::to_string(row.pid) + (row.use == nullptr ? "?" : "") +
                    (row.is_folded ? fmt::format("+{}", row.descendants) : ""));
  return texts;
}

const RowOrder kTree = {.is_tree = true};

TEST(Rows, TheLargestFirstUnknownLast) {
  const watch::Snapshot snapshot = machine({{1, 0, 10}, {2, 0, {}}, {3, 0, 30}, {4, 0, 0}});
  EXPECT_THAT(drawn(snapshot, {}), ElementsAre("3", "1", "4", "2"));
  EXPECT_THAT(drawn(snapshot, {.is_inverted = true}), ElementsAre("4", "1", "3", "2"));
  EXPECT_THAT(drawn(snapshot, {.sort = Field::kPid}), ElementsAre("1", "2", "3", "4"));
}

// Ties must not depend on where a row was before: rows that jump are the first complaint.
TEST(Rows, EqualKeysStandByPidWhateverCameBefore) {
  watch::Snapshot snapshot =
      machine({{9, 0, 5}, {3, 0, 5}, {12, 0, 5}, {5, 0, 5}, {7, 0, {}}, {1, 0, {}}});
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::ranges::shuffle(snapshot.processes, random);
    EXPECT_THAT(drawn(snapshot, {}), ElementsAre("3", "5", "9", "12", "1", "7"));
    EXPECT_THAT(drawn(snapshot, {.is_inverted = true}), ElementsAre("3", "5", "9", "12", "1", "7"));
    EXPECT_THAT(drawn(snapshot, {.sort = Field::kUser}),
                ElementsAre("1", "3", "5", "7", "9", "12"));
  }
}

TEST(Tree, ChildrenStandBelowTheirParentsBestFamilyFirst) {
  const watch::Snapshot snapshot =
      machine({{10, 1, 1}, {11, 10, 5}, {12, 10, 9}, {13, 12, 2}, {20, 1, 7}});
  EXPECT_THAT(drawn(snapshot, kTree), ElementsAre("10", "├─ 12", "│  └─ 13", "└─ 11", "20"));
}

TEST(Tree, AParentThatUsesNoGpuHasARowIfItHasSeveralChildren) {
  const watch::Snapshot snapshot =
      machine({{11, 5, 1}, {12, 5, 2}, {13, 6, 9}, {14, 1, 8}, {15, 1, 7}});
  EXPECT_THAT(drawn(snapshot, kTree), ElementsAre("13", "14", "15", "5?", "├─ 12", "└─ 11"));
}

TEST(Tree, ANumberThatWasGivenAgainIsNoParent) {
  const watch::Snapshot snapshot = machine({{10, 1, 5, 900}, {11, 10, 4, 100}});  // 10 began later
  EXPECT_THAT(drawn(snapshot, kTree), ElementsAre("10", "11"));
}

TEST(Tree, OfACircleTheSmallestIsTheRoot) {
  const watch::Snapshot snapshot =
      machine({{10, 12, 1, 7}, {11, 10, 2, 7}, {12, 11, 3, 7}, {13, 13, 4, 7}});
  EXPECT_THAT(drawn(snapshot, kTree), ElementsAre("13", "10", "└─ 11", "   └─ 12"));
}

TEST(Tree, FoldedFamiliesAreCounted) {
  const watch::Snapshot snapshot = machine({{10, 1, 1}, {11, 10, 5}, {12, 11, 9}, {20, 1, 7}});
  RowOrder order = kTree;
  order.folded = {10, 20};
  EXPECT_THAT(drawn(snapshot, order), ElementsAre("10+2", "20"));
}

// Whichever process claims to be another's child: each row comes out once, and a parent before its
// children.
TEST(Tree, NobodyIsLostOrDoubled) {
  std::mt19937 random(11);
  const auto any = [&](uint32_t low, uint32_t high) {
    return std::uniform_int_distribution<uint32_t>(low, high)(random);
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<Born> born;
    for (uint32_t pid = 2; pid < 2 + any(1, 25); ++pid)
      born.push_back({pid, any(0, 30), any(0, 3), any(1, 3)});
    const watch::Snapshot snapshot = machine(born);
    std::vector<uint32_t> pids;
    for (const Row& row : rows_of(snapshot, Filter(), std::nullopt, kTree)) {
      if (row.use != nullptr) pids.push_back(row.pid);
    }
    std::ranges::sort(pids);
    std::vector<uint32_t> expected;
    for (const Born& each : born) expected.push_back(each.pid);
    ASSERT_EQ(pids, expected);
  }
}

TEST(Tree, AChainOfThousandsIsDrawn) {
  std::vector<Born> chain;
  for (uint32_t pid = 2; pid < 3'000; ++pid) chain.push_back({pid, pid - 1, 1});
  EXPECT_EQ(drawn(machine(chain), kTree).size(), chain.size());
}

TEST(Rows, OneDeviceAloneAndTheFilter) {
  const watch::Snapshot snapshot = testing::sample_snapshot();  // a rank each, a server on 6 and 7
  EXPECT_EQ(rows_of(snapshot, Filter(), std::nullopt, {}).size(), 10U);
  EXPECT_EQ(rows_of(snapshot, Filter(), 6, {}).size(), 2U);
  EXPECT_EQ(rows_of(snapshot, *Filter::parse("user:root"), std::nullopt, {}).size(), 2U);
  EXPECT_EQ(rows_of(snapshot, *Filter::parse("mem<21G"), 7, {}).size(), 0U);
}

}  // namespace
}  // namespace vram::show::top
