// What network cards, NCCL and UCX rely on when they register a tensor (docs/pytorch.md): while a
// block lives, the same memory lies behind its addresses, whatever becomes of the blocks around it.
//
// The fake driver's memory is files in memory, so the kernel's list of this process's mappings says
// what lies behind an address, as a network card's page table would.
#include "capi/testing/fake_machine.hpp"

#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <map>
#include <random>
#include <utility>

namespace vram::capi {
namespace {

constexpr uint64_t kPageBytes = 2 * kMiB;

// A file, and where in it.
using Place = std::pair<uint64_t, uint64_t>;

class Mappings {
 public:
  Mappings() {
    std::FILE* file = std::fopen("/proc/self/maps", "r");
    char line[512];
    while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
      uint64_t begin = 0;
      uint64_t end = 0;
      uint64_t offset = 0;
      uint64_t inode = 0;
      const int found = std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %" SCNu64,
                                    &begin, &end, &offset, &inode);
      if (found == 4) ranges_[end] = {begin, offset, inode};
    }
    if (file != nullptr) (void)std::fclose(file);
  }
  // One for each page of the block.
  [[nodiscard]] std::vector<Place> behind(const void* block, size_t bytes) const {
    std::vector<Place> places;
    const auto begin = reinterpret_cast<uint64_t>(block);
    for (uint64_t address = begin; address < begin + bytes; address += kPageBytes) {
      const auto found = ranges_.upper_bound(address);
      if (found == ranges_.end() || found->second.begin > address) return {};
      places.emplace_back(found->second.inode,
                          found->second.offset + (address - found->second.begin));
    }
    return places;
  }

 private:
  struct Range {
    uint64_t begin;
    uint64_t offset;
    uint64_t inode;
  };
  std::map<uint64_t, Range> ranges_;  // by their end
};

struct Registered {
  void* block;
  size_t bytes;
  std::vector<Place> places;
};

class RegistrationTest : public FakeMachine {
 protected:
  void allocate(vram_pool* pool, size_t bytes, uintptr_t number) {
    void* block = nullptr;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): streams are the caller's, any values
    const auto stream = reinterpret_cast<vram_stream>(number);
    if (vram_alloc(pool, bytes, stream, &block) != VRAM_OK) return;
    live_.push_back({block, bytes, Mappings().behind(block, bytes)});
    ASSERT_FALSE(live_.back().places.empty());
  }
  void free_one(vram_pool* pool, size_t index) {
    EXPECT_EQ(vram_free(pool, live_[index].block), VRAM_OK);
    live_[index] = live_.back();
    live_.pop_back();
  }
  void expect_the_same() const {
    const Mappings now;
    for (const Registered& each : live_) {
      ASSERT_EQ(now.behind(each.block, each.bytes), each.places) << each.block;
    }
  }
  std::vector<Registered> live_;
};

TEST_F(RegistrationTest, WhatLiesBehindALiveBlockStaysTheSame) {
  vram_pool* pool = open();
  std::mt19937_64 random(11);
  for (int i = 0; i < 1500; ++i) {
    const size_t bytes = (1 + random() % 40) * kMiB;
    if (random() % 100 < 55) {
      ASSERT_NO_FATAL_FAILURE(allocate(pool, bytes, 8 + random() % 2 * 8));
    } else if (!live_.empty()) {
      free_one(pool, random() % live_.size());
    }
    if (i % 100 == 99) (void)vram_trim(pool, SIZE_MAX);
    ASSERT_NO_FATAL_FAILURE(expect_the_same());
  }
  EXPECT_GT(stats_of(pool).stitches, 50u) << "memory that is shown anew is what this is about";
  EXPECT_GT(fake_cuda_calls("cuMemUnmap"), 50u);
  while (!live_.empty()) free_one(pool, 0);
}

// Why a registration must end before its tensor does.
TEST_F(RegistrationTest, BehindAFreedBlocksAddressMayLieOtherMemory) {
  vram_pool* pool = open();
  void* block = alloc(pool, 100 * kMiB);
  const std::vector<Place> before = Mappings().behind(block, 100 * kMiB);
  EXPECT_EQ(vram_free(pool, block), VRAM_OK);
  EXPECT_GT(vram_trim(pool, SIZE_MAX), 0u);
  EXPECT_NE(Mappings().behind(block, 100 * kMiB), before);
}

}  // namespace
}  // namespace vram::capi
