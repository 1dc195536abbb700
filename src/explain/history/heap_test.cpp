#include "explain/history/heap.hpp"

#include "base/bytes.hpp"

#include <gtest/gtest.h>

namespace vram::explain {
namespace {

constexpr uint64_t kHeapBase = uint64_t{1} << 40;

SegmentRange segment_of(uint64_t size_bytes, bool is_expandable = false) {
  return {.size_bytes = size_bytes,
          .is_small = size_bytes <= kSmallSegmentBytes,
          .is_expandable = is_expandable};
}

uint64_t block_bytes(const Heap& heap, uint64_t address) {
  const uint32_t block = heap.find(address);
  return block == Heap::kNone ? 0 : heap.block(block).size_bytes;
}

TEST(Heap, SmallPoolSplitsFrom512Bytes) {
  Heap heap({});
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(2 * kMiB)));
  heap.allocate(kHeapBase, 100, 0);
  EXPECT_EQ(block_bytes(heap, kHeapBase), 512u);
  EXPECT_EQ(block_bytes(heap, kHeapBase + 512), 2 * kMiB - 512);
  EXPECT_EQ(heap.block_count(), 2u);
}

TEST(Heap, LargePoolKeepsRemaindersUpToOneMebibyte) {
  Heap heap({});
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(20 * kMiB)));
  heap.allocate(kHeapBase, 19 * kMiB, 0);
  EXPECT_EQ(block_bytes(heap, kHeapBase), 20 * kMiB);
  heap.complete_free(heap.find(kHeapBase));
  heap.allocate(kHeapBase, 19 * kMiB - 512, 1);
  EXPECT_EQ(block_bytes(heap, kHeapBase), 19 * kMiB - 512);
  EXPECT_EQ(heap.block_count(), 2u);
}

TEST(Heap, AtTheSplitLimitABlockKeepsItsSegment) {
  replay::TorchSettings settings;
  settings.max_split_bytes = 32 * kMiB;
  Heap heap{AllocatorRules(settings)};
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(40 * kMiB)));
  heap.allocate(kHeapBase, 33 * kMiB, 0);
  EXPECT_EQ(block_bytes(heap, kHeapBase), 40 * kMiB);
}

TEST(Heap, FreeNeighboursMergeWithinTheirSegmentOnly) {
  Heap heap({});
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(2 * kMiB)));
  ASSERT_TRUE(heap.add_segment(kHeapBase + 2 * kMiB, segment_of(2 * kMiB)));
  for (uint32_t i = 0; i < 3; ++i) heap.allocate(kHeapBase + i * 512, 512, i);
  heap.complete_free(heap.find(kHeapBase));
  heap.complete_free(heap.find(kHeapBase + 1024));  // with the tail of the segment
  EXPECT_EQ(heap.block_count(), 4u);
  heap.complete_free(heap.find(kHeapBase + 512));
  EXPECT_EQ(block_bytes(heap, kHeapBase), 2 * kMiB);
  EXPECT_EQ(block_bytes(heap, kHeapBase + 2 * kMiB), 2 * kMiB);
  EXPECT_EQ(heap.contradictions(), 0u);
}

TEST(Heap, APendingBlockDoesNotMerge) {
  Heap heap({});
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(2 * kMiB)));
  heap.allocate(kHeapBase, 512, 0);
  heap.allocate(kHeapBase + 512, 512, 1);
  heap.request_free(heap.find(kHeapBase));
  heap.complete_free(heap.find(kHeapBase + 512));
  EXPECT_EQ(block_bytes(heap, kHeapBase), 512u);
  heap.complete_free(heap.find(kHeapBase));
  EXPECT_EQ(block_bytes(heap, kHeapBase), 2 * kMiB);
}

TEST(Heap, MappedPagesJoinTheFreeTailBeforeThem) {
  Heap heap({});
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(20 * kMiB, true)));
  heap.allocate(kHeapBase, 15 * kMiB, 0);
  ASSERT_TRUE(heap.add_segment(kHeapBase + 20 * kMiB, segment_of(20 * kMiB, true)));
  EXPECT_EQ(heap.segments().ranges().size(), 1u);
  heap.allocate(kHeapBase + 15 * kMiB, 24 * kMiB, 1);  // across the former end
  EXPECT_EQ(block_bytes(heap, kHeapBase + 39 * kMiB), kMiB);
  EXPECT_EQ(heap.contradictions(), 0u);
}

TEST(Heap, UnmappingTheMiddleOfAFreeBlockLeavesItsEdges) {
  Heap heap({});
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(80 * kMiB, true)));
  heap.allocate(kHeapBase, 5 * kMiB, 0);
  ASSERT_TRUE(heap.remove_segment(kHeapBase + 20 * kMiB, 40 * kMiB));
  EXPECT_EQ(block_bytes(heap, kHeapBase + 5 * kMiB), 15 * kMiB);
  EXPECT_EQ(block_bytes(heap, kHeapBase + 60 * kMiB), 20 * kMiB);
  EXPECT_EQ(heap.segments().ranges().size(), 2u);
  // And the hole can be mapped again, from both sides.
  ASSERT_TRUE(heap.add_segment(kHeapBase + 20 * kMiB, segment_of(40 * kMiB, true)));
  EXPECT_EQ(block_bytes(heap, kHeapBase + 5 * kMiB), 75 * kMiB);
  EXPECT_EQ(heap.segments().ranges().size(), 1u);
  EXPECT_EQ(heap.contradictions(), 0u);
}

TEST(Heap, AnAllocationOverALiveBlockEvictsIt) {
  Heap heap({});
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(2 * kMiB)));
  heap.allocate(kHeapBase, 512, 7);
  heap.allocate(kHeapBase + 512, 512, 8);
  EXPECT_NE(heap.allocate(kHeapBase, 1024, 9), Heap::kNone);
  EXPECT_EQ(heap.evicted(), (std::vector<uint32_t>{7, 8}));
  EXPECT_GT(heap.contradictions(), 0u);
  EXPECT_EQ(block_bytes(heap, kHeapBase), 1024u);
}

TEST(Heap, AnAllocationOutsideIsRefusedAndNoted) {
  Heap heap({});
  EXPECT_EQ(heap.allocate(kHeapBase, 512, 0), Heap::kNone);
  ASSERT_EQ(heap.outside().size(), 1u);
  EXPECT_EQ(heap.outside()[0].address, kHeapBase);
}

TEST(Heap, APlacedBlockOfUnknownSizeTakesWhatCouldNotBeSplitOff) {
  Heap heap({});
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(20 * kMiB)));
  ASSERT_TRUE(heap.place(kHeapBase, 8 * kMiB, 0, 0));
  ASSERT_TRUE(heap.place(kHeapBase + 8 * kMiB + 512 * kKiB, 11 * kMiB, 0, 1));
  EXPECT_EQ(block_bytes(heap, kHeapBase), 8 * kMiB + 512 * kKiB);  // up to its neighbour
  EXPECT_EQ(block_bytes(heap, kHeapBase + 8 * kMiB + 512 * kKiB),
            11 * kMiB + 512 * kKiB);  // to the end
}

TEST(Heap, AnAllocationBehindAPlacedBlockTellsItsSize) {
  Heap heap({});
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(20 * kMiB)));
  ASSERT_TRUE(heap.place(kHeapBase, 8 * kMiB, 0, 0));
  EXPECT_EQ(block_bytes(heap, kHeapBase), 8 * kMiB);
  heap.allocate(kHeapBase + 8 * kMiB + 4096, 2 * kMiB, 1);
  EXPECT_EQ(block_bytes(heap, kHeapBase), 8 * kMiB + 4096);
  EXPECT_EQ(heap.contradictions(), 0u);
}

// Which remainder was kept by a block that was found shows by what lies behind it.
TEST(Heap, FoundBlocksLieAnywhereInFreeMemory) {
  Heap heap({});
  ASSERT_TRUE(heap.add_segment(kHeapBase, segment_of(20 * kMiB)));
  EXPECT_NE(heap.settle(kHeapBase + 4 * kMiB, 2 * kMiB, 0, 0), Heap::kNone);
  EXPECT_NE(heap.settle(kHeapBase + 7 * kMiB, 3 * kMiB, 0, 1), Heap::kNone);
  EXPECT_NE(heap.settle(kHeapBase + 12 * kMiB, 2 * kMiB, 3 * kMiB, 2), Heap::kNone);
  EXPECT_EQ(block_bytes(heap, kHeapBase), 4 * kMiB);
  EXPECT_EQ(block_bytes(heap, kHeapBase + 4 * kMiB), 3 * kMiB) << "1 MiB is never left over alone";
  EXPECT_EQ(block_bytes(heap, kHeapBase + 7 * kMiB), 3 * kMiB);
  EXPECT_EQ(block_bytes(heap, kHeapBase + 10 * kMiB), 2 * kMiB);
  EXPECT_EQ(block_bytes(heap, kHeapBase + 12 * kMiB), 3 * kMiB) << "its size was known";
  EXPECT_EQ(block_bytes(heap, kHeapBase + 15 * kMiB), 5 * kMiB);
  EXPECT_EQ(heap.contradictions(), 0u);
  EXPECT_NE(heap.settle(kHeapBase + kMiB, kMiB, 0, 3), Heap::kNone)
      << "behind the others: as allocated";
  EXPECT_EQ(heap.contradictions(), 1u);
}

trace::Trace with_settings(std::vector<trace::Setting> settings) {
  trace::Trace trace;
  trace.settings = std::move(settings);
  return trace;
}

AllocatorRules gpu_rules(std::vector<trace::Setting> settings) {
  return rules_of(with_settings(std::move(settings)), trace::DeviceKind::kGpu);
}

TEST(AllocatorRules, RoundsToMultiplesOf512) {
  const AllocatorRules rules;
  EXPECT_EQ(rules.round(0), 512u);
  EXPECT_EQ(rules.round(1), 512u);
  EXPECT_EQ(rules.round(512), 512u);
  EXPECT_EQ(rules.round(513), 1024u);
  EXPECT_EQ(rules.round(5 * kMiB + 1), 5 * kMiB + 512);
}

TEST(AllocatorRules, RoundsToPowerOfTwoDivisionsWhereTheyAreSet) {
  const AllocatorRules rules =
      gpu_rules({{"roundup_power2_divisions.1", "4"}, {"roundup_power2_divisions.8", "0"}});
  // Between 1 and 2 MiB in steps of 256 KiB; below, the first interval's divisions hold too.
  EXPECT_EQ(rules.round(1200 * kKiB), 1280 * kKiB);
  EXPECT_EQ(rules.round(1280 * kKiB), 1280 * kKiB);
  EXPECT_EQ(rules.round(kMiB), kMiB);
  EXPECT_EQ(rules.round(600 * kKiB), 640 * kKiB);
  EXPECT_EQ(rules.round(2048), 2048u);  // 512 bytes a division or less: plain rounding
  EXPECT_EQ(rules.round(1500), 1536u);
  EXPECT_EQ(rules.round(9 * kMiB + 1), 9 * kMiB + 512);
}

TEST(AllocatorRules, ReadsTheSplitLimitAndTreatsMinusOneAsNone) {
  EXPECT_EQ(gpu_rules({{"max_split_size", "134217728"}}).max_split_bytes(), 128 * kMiB);
  EXPECT_EQ(gpu_rules({{"max_split_size", "-1"}}).max_split_bytes(), UINT64_MAX);
  EXPECT_EQ(gpu_rules({{"max_split_size", "many"}}).max_split_bytes(), UINT64_MAX);
}

TEST(AllocatorRules, SplitsSmallRemaindersInTheSmallPoolOnly) {
  const AllocatorRules rules;
  EXPECT_TRUE(rules.splits(512, 512, true));
  EXPECT_FALSE(rules.splits(2 * kMiB, kMiB, false));
  EXPECT_TRUE(rules.splits(2 * kMiB, kMiB + 512, false));
  EXPECT_FALSE(gpu_rules({{"max_split_size", "33554432"}}).splits(32 * kMiB, 8 * kMiB, false));
}

TEST(AllocatorRules, PinnedMemoryIsNeverSplit) {
  const AllocatorRules rules =
      rules_of(with_settings({{"max_split_size", "134217728"}}), trace::DeviceKind::kHost);
  EXPECT_FALSE(rules.splits(512, kMiB, true));
  EXPECT_FALSE(rules.splits(2 * kMiB, 8 * kMiB, false));
}

}  // namespace
}  // namespace vram::explain
