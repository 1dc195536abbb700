// vram.h: opening pools, memory and limits, figures, a fork.
#include "base/testing/waiting.hpp"
#include "capi/testing/fake_machine.hpp"

#include <array>
#include <sys/wait.h>
#include <unistd.h>

namespace vram::capi {
namespace {

class PoolsTest : public FakeMachine {};

TEST_F(PoolsTest, ADeviceHasOnePoolForAllWhoOpenIt) {
  vram_pool* first = open(0);
  vram_pool* again = open(0);
  vram_pool* other = open(1);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  void* block = alloc(first, kMiB);
  EXPECT_EQ(vram_pool_close(again), VRAM_OK);
  pools_.erase(pools_.begin() + 1);
  std::memset(block, 1, kMiB);
  EXPECT_EQ(vram_free(first, block), VRAM_OK);
}

TEST_F(PoolsTest, WhatIsWrongIsSaidInALine) {
  vram_pool* pool = nullptr;
  EXPECT_EQ(vram_pool_open(7, nullptr, &pool), VRAM_NO_DRIVER);
  EXPECT_NE(std::string(vram_last_error()).find("found 7"), std::string::npos) << vram_last_error();
  EXPECT_EQ(vram_pool_open(-1, nullptr, &pool), VRAM_NO_DRIVER);
  vram_pool_options options{};
  EXPECT_EQ(vram_pool_open(0, &options, &pool), VRAM_INVALID_VALUE) << "no struct_bytes";
  options.struct_bytes = sizeof options;
  options.handle_bytes = 3 * kMiB;
  EXPECT_EQ(vram_pool_open(0, &options, &pool), VRAM_INVALID_VALUE);
  EXPECT_NE(std::string(vram_last_error()).find("2 MiB"), std::string::npos);
  EXPECT_EQ(pool, nullptr);
  (void)open(0);
  EXPECT_STREQ(vram_last_error(), "");
}

TEST_F(PoolsTest, WithoutVirtualMemoryItStandsOnSegments) {
  fake_cuda_set_virtual_memory(0, false);
  vram_pool_options options{};
  options.struct_bytes = sizeof options;
  options.backing = VRAM_BACKING_VIRTUAL;
  vram_pool* none = nullptr;
  EXPECT_EQ(vram_pool_open(0, &options, &none), VRAM_NOT_SUPPORTED);
  vram_pool* pool = open(0);
  void* block = alloc(pool, 3 * kMiB);
  std::memset(block, 7, 3 * kMiB);
  EXPECT_EQ(fake_cuda_calls("cuMemAlloc_v2"), 1u);
  EXPECT_EQ(vram_owns(static_cast<char*>(block) + kMiB), 1);
  EXPECT_EQ(vram_owns(&block), 0);
  EXPECT_EQ(vram_free(pool, block), VRAM_OK);
  EXPECT_EQ(vram_trim(pool, SIZE_MAX), 20 * kMiB);
  EXPECT_EQ(fake_cuda_alive().segments, 0u);
}

TEST_F(PoolsTest, TrimGivesBackWhatNothingUses) {
  vram_pool* pool = open();
  void* kept = alloc(pool, 2 * kMiB);
  void* freed = alloc(pool, 100 * kMiB);
  EXPECT_EQ(vram_free(pool, freed), VRAM_OK);
  EXPECT_GE(vram_trim(pool, 10 * kMiB), 10 * kMiB);
  EXPECT_GE(stats_of(pool).reserved_bytes.current, 80 * kMiB) << "no more than was wanted, about";
  (void)vram_trim(pool, SIZE_MAX);
  EXPECT_LE(stats_of(pool).reserved_bytes.current, 24 * kMiB);
  EXPECT_EQ(fake_cuda_alive().used_bytes, stats_of(pool).reserved_bytes.current);
  std::memset(kept, 3, 2 * kMiB);
}

TEST_F(PoolsTest, ALimitHoldsUntilItIsTakenAway) {
  vram_pool* pool = open(0, 64 * kMiB);
  void* block = nullptr;
  EXPECT_EQ(vram_alloc(pool, 65 * kMiB, nullptr, &block), VRAM_OUT_OF_MEMORY);
  EXPECT_EQ(block, nullptr);
  EXPECT_EQ(stats_of(pool).limit_bytes, 64 * kMiB);
  EXPECT_EQ(vram_limit(pool, 0), VRAM_OK);
  EXPECT_NE(alloc(pool, 65 * kMiB), nullptr);
}

TEST_F(PoolsTest, FiguresAreThoseOfTheCalls) {
  vram_pool* pool = open();
  void* a = alloc(pool, 3 * kMiB);
  void* b = alloc(pool, 1000);
  EXPECT_EQ(vram_free(pool, a), VRAM_OK);
  const vram_stats stats = stats_of(pool);
  EXPECT_EQ(stats.allocation.current, 1u);
  EXPECT_EQ(stats.allocation.peak, 2u);
  EXPECT_EQ(stats.allocated_bytes.current, 1024u);
  EXPECT_EQ(stats.allocated_bytes.peak, 3 * kMiB + 1024);
  EXPECT_EQ(stats.requested_bytes.current, 1000u);
  EXPECT_EQ(stats.allocated_bytes.freed, 3 * kMiB);
  EXPECT_GT(stats.driver_calls, 0u);
  EXPECT_EQ(vram_reset_peaks(pool), VRAM_OK);
  EXPECT_EQ(stats_of(pool).allocated_bytes.peak, 1024u);
  EXPECT_EQ(vram_reset_sums(pool), VRAM_OK);
  EXPECT_EQ(stats_of(pool).allocated_bytes.freed, 0u);
  vram_stats other{};
  other.struct_bytes = 8;
  EXPECT_EQ(vram_get_stats(pool, &other), VRAM_INVALID_VALUE);
  (void)b;
}

TEST_F(PoolsTest, PartsCoverTheReservedMemoryInOrder) {
  vram_pool* pool = open();
  void* block = alloc(pool, 5 * kMiB);
  (void)alloc(pool, 700);
  std::vector<vram_part> parts;
  const auto keep = [](void* user, const vram_part* part) {
    static_cast<std::vector<vram_part>*>(user)->push_back(*part);
  };
  const size_t count = vram_visit(pool, keep, &parts);
  EXPECT_EQ(parts.size(), count);
  uint64_t bytes = 0;
  uint64_t live = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    bytes += parts[i].size_bytes;
    live += parts[i].is_live ? parts[i].requested_bytes : 0;
    if (i == 0) continue;
    EXPECT_GE(parts[i].address, parts[i - 1].address + parts[i - 1].size_bytes);
  }
  EXPECT_EQ(bytes, stats_of(pool).reserved_bytes.current);
  EXPECT_EQ(live, 5 * kMiB + 700);
  (void)block;
}

TEST_F(PoolsTest, AnotherDeviceIsLetIn) {
  vram_pool* pool = open(0);
  const auto before = reinterpret_cast<uint64_t>(alloc(pool, 2 * kMiB));
  EXPECT_FALSE(fake_cuda_can_touch(1, before));
  EXPECT_EQ(vram_enable_peer(pool, 1), VRAM_OK);
  const auto after = reinterpret_cast<uint64_t>(alloc(pool, 30 * kMiB));
  EXPECT_TRUE(fake_cuda_can_touch(1, before)) << "what there was";
  EXPECT_TRUE(fake_cuda_can_touch(1, after + 29 * kMiB)) << "and what came later";
}

TEST_F(PoolsTest, AForkHasNoPools) {
  vram_pool* pool = open();
  void* block = alloc(pool, kMiB);
  const pid_t child = fork();
  if (child == 0) {
    void* other = nullptr;
    vram_pool* again = nullptr;
    const std::array is_right{vram_alloc(pool, 512, nullptr, &other) == VRAM_FORKED,
                              vram_free(pool, block) == VRAM_FORKED,
                              vram_pool_open(0, nullptr, &again) == VRAM_FORKED,
                              vram_trim(pool, SIZE_MAX) == 0, vram_owns(block) == 0};
    for (size_t i = 0; i < is_right.size(); ++i) {
      if (!is_right[i]) _exit(static_cast<int>(i) + 1);
    }
    _exit(0);
  }
  const int status = status_of_child(child);
  EXPECT_EQ(status, 0) << "the check that failed is number " << WEXITSTATUS(status);
  EXPECT_EQ(vram_free(pool, block), VRAM_OK);
}

}  // namespace
}  // namespace vram::capi
