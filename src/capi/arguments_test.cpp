// What no correct program passes: NULL, and handles that are closed.
#include "base/testing/paths.hpp"
#include "capi/testing/fake_machine.hpp"

#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <unistd.h>
#include <utility>
#include <vram/record.h>
#include <vram/status.h>

namespace vram::capi {
namespace {

class ArgumentsTest : public FakeMachine {
 protected:
  // Each function about a pool, with arguments that are right but for the pool.
  static void expect_refusal(vram_pool* pool) {
    void* block = nullptr;
    EXPECT_EQ(vram_alloc(pool, 1, nullptr, &block), VRAM_INVALID_VALUE);
    EXPECT_EQ(block, nullptr);
    EXPECT_EQ(vram_free(pool, &block), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_record_stream(pool, &block, nullptr), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_forget_stream(pool, nullptr), VRAM_INVALID_VALUE);
    vram_block_info info{};
    EXPECT_EQ(vram_find_block(pool, &block, &info), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_trim(pool, SIZE_MAX), 0u);
    EXPECT_EQ(vram_limit(pool, kGiB), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_enable_peer(pool, 1), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_begin_capture(pool), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_end_capture(pool), VRAM_INVALID_VALUE);
    vram_stats stats{};
    stats.struct_bytes = sizeof stats;
    EXPECT_EQ(vram_get_stats(pool, &stats), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_reset_peaks(pool), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_reset_sums(pool), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_visit(pool, [](void*, const vram_part*) { FAIL(); }, nullptr), 0u);
    char text[64] = "untouched";
    EXPECT_EQ(vram_explain_oom(pool, text, sizeof text), 0u);
    EXPECT_EQ(vram_validate(pool, text, sizeof text), 0);
    EXPECT_STREQ(text, "untouched");
    EXPECT_EQ(vram_pool_close(pool), VRAM_INVALID_VALUE);
  }
};

TEST_F(ArgumentsTest, NoPool) {
  expect_refusal(nullptr);
  EXPECT_EQ(vram_pool_open(0, nullptr, nullptr), VRAM_INVALID_VALUE);
}

TEST_F(ArgumentsTest, APoolThatIsClosed) {
  vram_pool* pool = nullptr;
  ASSERT_EQ(vram_pool_open(0, nullptr, &pool), VRAM_OK);
  ASSERT_EQ(vram_pool_close(pool), VRAM_OK);
  expect_refusal(pool);
}

// Closing a handle twice must not close the pool that was opened since.
TEST_F(ArgumentsTest, AClosedHandleIsNoneOfThePoolThatIsOpenedNext) {
  vram_pool* closed = nullptr;
  ASSERT_EQ(vram_pool_open(0, nullptr, &closed), VRAM_OK);
  ASSERT_EQ(vram_pool_close(closed), VRAM_OK);
  vram_pool* pool = open(0);
  expect_refusal(closed);
  void* block = alloc(pool, kMiB);
  EXPECT_EQ(vram_owns(block), 1);
  EXPECT_EQ(vram_free(pool, block), VRAM_OK);
}

TEST_F(ArgumentsTest, EachOpenTakesOneClose) {
  vram_pool* pool = nullptr;
  ASSERT_EQ(vram_pool_open(0, nullptr, &pool), VRAM_OK);
  ASSERT_EQ(vram_pool_open(0, nullptr, &pool), VRAM_OK);
  EXPECT_EQ(vram_pool_close(pool), VRAM_OK);
  EXPECT_EQ(vram_free(pool, alloc(pool, kMiB)), VRAM_OK);
  EXPECT_EQ(vram_pool_close(pool), VRAM_OK);
  EXPECT_EQ(vram_pool_close(pool), VRAM_INVALID_VALUE);
}

TEST_F(ArgumentsTest, NoPlaceForAnAnswer) {
  vram_pool* pool = open(0);
  void* block = alloc(pool, kMiB);
  EXPECT_EQ(vram_alloc(pool, 1, nullptr, nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_find_block(pool, block, nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_get_stats(pool, nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_visit(pool, nullptr, nullptr), 0u);
  EXPECT_EQ(vram_validate(pool, nullptr, 100), 1);
  ASSERT_EQ(vram_limit(pool, kMiB), VRAM_OK);
  void* none = nullptr;
  ASSERT_EQ(vram_alloc(pool, kGiB, nullptr, &none), VRAM_OUT_OF_MEMORY);
  EXPECT_GT(vram_explain_oom(pool, nullptr, 100), 20u) << "the length that the text has";
}

TEST_F(ArgumentsTest, OfTheRecorder) {
  EXPECT_EQ(vram_record_start(nullptr, nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_get_record_counts(nullptr), VRAM_INVALID_VALUE);
  const std::string path =
      testing::TempDir() + "vram-arguments-" + std::to_string(getpid()) + ".vtrace";
  ASSERT_EQ(vram_record_start(path.c_str(), nullptr), VRAM_OK) << vram_last_error();
  vram_scope_begin(nullptr);
  vram_name(0, &path, 1, nullptr, nullptr);
  vram_record_about(nullptr, "value");
  vram_record_about("key", nullptr);
  vram_record_setting(nullptr, nullptr);
  vram_record_event(nullptr);
  vram_scope_end();
  EXPECT_EQ(vram_record_path(nullptr, 100), path.size());
  EXPECT_EQ(vram_record_stop(), VRAM_OK) << vram_last_error();
  EXPECT_EQ(unlink(path.c_str()), 0);
}

TEST_F(ArgumentsTest, OfTheMachineAndTheBoard) {
  EXPECT_EQ(vram_sampler_device_count(nullptr), 0u);
  EXPECT_EQ(vram_sampler_missing(nullptr, nullptr, 100), 0u);
  vram_device_info info{};
  info.struct_bytes = sizeof info;
  EXPECT_EQ(vram_sampler_read_device(nullptr, 0, &info, nullptr, nullptr), VRAM_INVALID_VALUE);
  vram_sampler* sampler = nullptr;
  ASSERT_EQ(
      vram_sampler_open(vram::build_path("tests/fake_nvml/3/libnvidia-ml.so.1").c_str(), &sampler),
      VRAM_OK);
  EXPECT_EQ(vram_sampler_read_device(sampler, 0, nullptr, nullptr, nullptr), VRAM_INVALID_VALUE);
  size_t count = 5;
  EXPECT_EQ(vram_sampler_read_device(sampler, 0, &info, nullptr, &count), VRAM_OK);
  EXPECT_EQ(count, 0u) << "there is no room for any";
  EXPECT_EQ(vram_sampler_close(sampler), VRAM_OK);

  EXPECT_EQ(vram_board_post(nullptr), VRAM_INVALID_VALUE);
  const vram_board_figures figures{sizeof figures, 0, 0, nullptr, nullptr, 3, 0};
  EXPECT_EQ(vram_board_post(&figures), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_board_request(nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_board_read(1, nullptr), VRAM_INVALID_VALUE);
}

}  // namespace

// What network cards, NCCL and UCX rely on when they register a tensor (docs/pytorch.md): while a
// block lives, the same memory lies behind its addresses, whatever becomes of the blocks around it.
//
// The fake driver's memory is files in memory, so the kernel's list of this process's mappings says
// what lies behind an address, as a network card's page table would.

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
  EXPECT_GT(stats_of(pool).stitches, 50u) << "this test needs memory that is mapped again";
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
