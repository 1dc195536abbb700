#include "explain/history/allocator_rules.hpp"

#include "base/bytes.hpp"

#include <gtest/gtest.h>

namespace vram::explain {
namespace {

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
