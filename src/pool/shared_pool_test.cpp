// The pool of all threads: blocks by address, competition, blocks on shelves.
#include "pool/shared_pool.hpp"

#include "base/bytes.hpp"
#include "base/testing/waiting.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace vram::pool {
namespace {

class SharedPoolTest : public PoolOnSimGpu<SharedPool> {
 protected:
  SharedPoolTest() : PoolOnSimGpu(256 * kMiB) {}
};

TEST_F(SharedPoolTest, BlocksAreNamedByAddress) {
  const Address first = pool_.allocate(3 * kMiB, 0);
  const Address second = pool_.allocate(100, 0);
  EXPECT_EQ(pool_.block_at(second).requested_bytes, 100u);
  EXPECT_FALSE(pool_.free(first + 512)) << "not the beginning of a block";
  EXPECT_TRUE(pool_.free(first));
  EXPECT_FALSE(pool_.free(first)) << "freed twice";
  EXPECT_FALSE(pool_.record_stream(first, 64));
  EXPECT_FALSE(pool_.free(0));
  EXPECT_EQ(pool_.block_at(first).address, 0u);
  EXPECT_EQ(pool_.stats().allocation.current, 1u);
}

struct Owner {
  SharedPool* pool = nullptr;
  std::vector<Address> spare;
  int calls = 0;
  static bool reclaim(void* self, uint64_t) {
    Owner& owner = *static_cast<Owner*>(self);
    ++owner.calls;
    for (const Address address : std::exchange(owner.spare, {})) {
      EXPECT_TRUE(owner.pool->free(address));
    }
    return owner.calls == 1;
  }
};

TEST_F(SharedPoolTest, TheOwnerIsAskedBeforeARequestFails) {
  Owner owner{&pool_, {}, 0};
  pool_.on_oom(Owner::reclaim, &owner);
  owner.spare.push_back(pool_.allocate(200 * kMiB, 0));
  EXPECT_NE(pool_.allocate(150 * kMiB, 0), 0u);
  EXPECT_EQ(owner.calls, 1);
  EXPECT_EQ(pool_.stats().num_ooms, 0u) << "it did not fail in the end";
  EXPECT_EQ(pool_.allocate(150 * kMiB, 0), 0u);
  EXPECT_EQ(owner.calls, 2);
  EXPECT_EQ(pool_.stats().num_ooms, 1u);
  EXPECT_EQ(pool_.last_oom().requested_bytes, 150 * kMiB);
}

// Runs work(), in a pool that has memory, in a thread that meets another one at the pool's lock
// again and again until the pool lends it memory. False if that never happens.
template <typename Work>
bool run_in_competition(SharedPool& pool, Work work) {
  bool is_lent = false;
  std::thread thread([&] {
    for (int i = 0; i < 1000 && !is_lent; ++i) {
      std::atomic<bool> is_inside{false};
      std::thread other([&] {
        pool.visit([&](const BlockInfo&) {
          if (!is_inside.exchange(true)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        });
      });
      EXPECT_TRUE(eventually([&] { return is_inside.load(); }, kWaitLimit, {}))
          << "the other thread never got into the pool";
      const Address first = pool.allocate(512, 0);
      other.join();
      const Address second = pool.allocate(512, 0);
      is_lent = pool.stats().shelf_hits > 0;
      EXPECT_TRUE(pool.free(first));
      EXPECT_TRUE(pool.free(second));
    }
    work();
  });
  thread.join();
  return is_lent;
}

// Visits to the pool that meet no other thread.
void end_competition(SharedPool& pool) {
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(pool.free(0));
}

TEST_F(SharedPoolTest, OneThreadIsLentNothing) {
  std::vector<Address> live;
  for (uint64_t i = 0; i < 400; ++i) {
    live.push_back(pool_.allocate(512 + i * 1000, i % 2 * 64));
    if (i % 3 != 0) continue;
    EXPECT_TRUE(pool_.free(live[i / 2]));
    live[i / 2] = pool_.allocate(700, 0);
  }
  EXPECT_EQ(pool_.stats().shelf_hits, 0u);
  for (const Address address : live) EXPECT_TRUE(pool_.free(address));
}

// 64 MiB are there. What a thread that competed leaves of them serves another one without new
// memory.
TEST_F(SharedPoolTest, WhatIsLentComesBackBeforeThePoolGrows) {
  EXPECT_TRUE(pool_.free(pool_.allocate(64 * kMiB, 0)));
  std::vector<Address> all;
  Stats before;
  ASSERT_TRUE(run_in_competition(pool_, [&] {
    before = pool_.stats();
    for (int i = 0; i < 12; ++i) all.push_back(pool_.allocate(3 * kMiB - 5, 0));
    EXPECT_EQ(pool_.stats().requested_bytes.current, 12 * (3 * kMiB - 5));
    for (int i = 1; i < 12; ++i) EXPECT_TRUE(pool_.free(all[static_cast<size_t>(i)]));
  }));
  const uint64_t reserved = before.reserved_bytes.current;
  Stats stats = pool_.stats();
  EXPECT_EQ(stats.reserved_bytes.current, reserved) << "36 of 64 MiB";
  EXPECT_EQ(stats.allocation.current, 1u);
  EXPECT_EQ(stats.allocation.allocated - before.allocation.allocated, 12u);
  EXPECT_EQ(stats.allocation.freed - before.allocation.freed, 11u);
  EXPECT_EQ(stats.allocated_bytes.current, 3 * kMiB);
  EXPECT_GT(stats.shelf_hits, before.shelf_hits);

  end_competition(pool_);
  const Address large = pool_.allocate(50 * kMiB, 0);
  ASSERT_NE(large, 0u);
  stats = pool_.stats();
  EXPECT_EQ(stats.reserved_bytes.current, reserved);
  EXPECT_EQ(stats.allocation.current, 2u);
  EXPECT_EQ(stats.allocation.allocated - before.allocation.allocated, 13u);
  EXPECT_EQ(pool_.block_at(all[0]).requested_bytes, 3 * kMiB - 5);
  for (const Address address : {all[0], large}) EXPECT_TRUE(pool_.free(address));
  EXPECT_EQ(pool_.stats().active_bytes.current, 0u);
}

TEST_F(SharedPoolTest, ABlockOfOneThreadsShelfIsEveryThreads) {
  EXPECT_TRUE(pool_.free(pool_.allocate(64 * kMiB, 0)));
  std::vector<Address> blocks;
  const uint64_t hits = pool_.stats().shelf_hits;
  ASSERT_TRUE(run_in_competition(pool_, [&] {
    for (int i = 0; i < 30; ++i) blocks.push_back(pool_.allocate(512, 0));
  }));
  EXPECT_GT(pool_.stats().shelf_hits, hits + 25);
  EXPECT_TRUE(pool_.free(blocks[0]));
  EXPECT_FALSE(pool_.free(blocks[0])) << "freed twice";
  EXPECT_TRUE(pool_.record_stream(blocks[1], 64));
  EXPECT_FALSE(pool_.record_stream(blocks[0], 64));
  EXPECT_EQ(pool_.block_at(blocks[2]).size_bytes, 512u);
  EXPECT_EQ(pool_.stats().allocation.current, 29u);
  for (size_t i = 1; i < blocks.size(); ++i) EXPECT_TRUE(pool_.free(blocks[i]));
}

// The pool grows for it, but not by much more than the thread needs.
TEST_F(SharedPoolTest, AThreadThatCompetesSoonNeedsThePoolNoMore) {
  EXPECT_TRUE(pool_.free(pool_.allocate(2 * kMiB, 0)));
  const auto work = [&] {
    std::vector<Address> live;
    for (uint64_t i = 1; i <= 40; ++i) live.push_back(pool_.allocate(i * 50'000, 0));  // 39 MiB
    for (const Address address : live) EXPECT_TRUE(pool_.free(address));
  };
  ASSERT_TRUE(run_in_competition(pool_, [&] {
    for (int i = 0; i < 10; ++i) work();
    const Stats before = pool_.stats();
    for (int i = 0; i < 10; ++i) work();
    const Stats after = pool_.stats();
    EXPECT_EQ(after.shelf_hits - before.shelf_hits, 400u);
    EXPECT_EQ(after.slow_requests, before.slow_requests);
    EXPECT_LE(after.reserved_bytes.peak, 40 * kMiB * 3 / 2);
  }));
}

TEST_F(SharedPoolTest, AUseByAnotherStreamTakesItsLeaseOnly) {
  EXPECT_TRUE(pool_.free(pool_.allocate(2 * kMiB, 0)));
  ASSERT_TRUE(run_in_competition(pool_, [&] {
    const Address small = pool_.allocate(512, 0);
    const Address large = pool_.allocate(2 * kMiB, 0);
    EXPECT_TRUE(pool_.free(large));
    const uint64_t hits = pool_.stats().shelf_hits;
    EXPECT_TRUE(pool_.record_stream(small, 64));
    EXPECT_EQ(pool_.block_at(small).size_bytes, 512u);
    EXPECT_EQ(pool_.allocate(2 * kMiB, 0), large);
    EXPECT_EQ(pool_.stats().shelf_hits, hits + 1);
    EXPECT_EQ(pool_.block_at(large).requested_bytes, 2 * kMiB);
    EXPECT_TRUE(pool_.free(large));
    EXPECT_EQ(pool_.allocate(2 * kMiB, 0), large);
    EXPECT_EQ(pool_.stats().shelf_hits, hits + 2) << "a query empties no shelf";
    EXPECT_EQ(pool_.block_at(large + 512).address, large);
    EXPECT_EQ(pool_.stats().allocated_bytes.current, 2 * kMiB + 512);
    EXPECT_TRUE(pool_.free(large));
    EXPECT_TRUE(pool_.free(small));
  }));
  EXPECT_EQ(pool_.stats().allocated_bytes.current, 0u);
}

// 208 MiB of the 256 that there are: what is lent to spare comes back.
TEST_F(SharedPoolTest, CompetitionFailsNoRequestThatFits) {
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(static_cast<uint64_t>(thread));
      for (int i = 0; i < 300; ++i) {
        std::vector<Address> live;
        for (uint64_t bytes = 0; bytes < 48 * kMiB;) {
          const uint64_t size = 4096 + random() % (4 * kMiB);
          live.push_back(pool_.allocate(size, 0));
          failed += live.back() == 0 ? 1 : 0;
          bytes += size;
        }
        std::shuffle(live.begin(), live.end(), random);
        for (const Address address : live) (void)pool_.free(address);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(pool_.stats().num_ooms, 0u);
}

// No two threads are ever given the same bytes: each marks its blocks' beginnings and ends.
TEST_F(SharedPoolTest, ThreadsThatCompeteNeverShareABlock) {
  constexpr int kThreads = 4;
  const Address base = pool_.allocate(512, 0);  // the first home; others follow
  std::vector<std::atomic<uint32_t>> owners(2 * 256 * kMiB / 512);
  const auto owner_of = [&](Address address) -> std::atomic<uint32_t>& {
    return owners.at((address - base) / 512);
  };
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (uint32_t thread = 1; thread <= kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      std::map<Address, int> live;
      for (int i = 0; i < 30'000; ++i) {
        if (live.size() < 40 && random() % 100 < 55) {
          const Address got = pool_.allocate(uint64_t{512} << random() % 8, thread % 2 * 64);
          if (got == 0) continue;
          if (owner_of(got).exchange(thread) != 0) ++errors;
          live.emplace(got, i);
          if (random() % 50 == 0) (void)pool_.record_stream(got, 128);
        } else if (!live.empty()) {
          const Address gone = live.begin()->first;
          live.erase(live.begin());
          if (owner_of(gone).exchange(0) != thread) ++errors;
          if (!pool_.free(gone)) ++errors;
        }
        if (i % 5000 == 0) (void)pool_.trim(kMiB);
        if (i % 1000 == 0) (void)pool_.stats();
      }
      for (const auto& [address, since] : live) {
        owner_of(address).store(0);
        if (!pool_.free(address)) ++errors;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, 0);
  EXPECT_TRUE(pool_.free(base));
  EXPECT_EQ(pool_.stats().allocated_bytes.current, 0u);
  (void)pool_.trim(UINT64_MAX);
  EXPECT_EQ(pool_.stats().active_bytes.current, 0u);
  EXPECT_EQ(gpu_.used_bytes(0), 0u);
}

TEST_F(SharedPoolTest, AStreamIsForgottenWithoutWaiting) {
  const Address address = pool_.allocate(20 * kMiB, 64);
  const int64_t done_ns = gpu_.now_ns() + 1'000'000'000;
  ASSERT_EQ(gpu_.enqueue(0, 64, 1'000'000'000), Status::kOk);
  EXPECT_TRUE(pool_.free(address));
  EXPECT_TRUE(pool_.free(pool_.allocate(512, 0)));
  pool_.forget(64);
  EXPECT_LT(gpu_.now_ns(), done_ns);
  EXPECT_NE(pool_.allocate(20 * kMiB, 0), address);
  gpu_.advance(1'000'000'000);
  pool_.limit(0);
  EXPECT_EQ(pool_.allocate(20 * kMiB, 0), address);
}

// Another thread resets the counts while the owner looks for memory to free.
TEST_F(SharedPoolTest, AResetBetweenTwoTriesLosesNothing) {
  pool_.on_oom(
      [](void* pool, uint64_t) {
        static_cast<SharedPool*>(pool)->reset_sums();
        return true;
      },
      &pool_);
  EXPECT_EQ(pool_.allocate(300 * kMiB, 0), 0u);
  EXPECT_EQ(pool_.stats().num_ooms, 1u);
}

// Two million operations of every kind, ten with VRAM_DEEP, with all that must hold looked at on
// the way.
TEST_F(SharedPoolTest, MillionsOfRandomOperations) {
  const bool is_deep = std::getenv("VRAM_DEEP") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const int operations = is_deep ? 10'000'000 : 2'000'000;
  std::mt19937_64 random(1);
  std::vector<Address> live;
  uint64_t failed = 0;
  std::string why;
  for (int i = 0; i < operations; ++i) {
    const uint64_t dice = random() % 1000;
    if (dice < 500 && live.size() < 400) {
      const uint64_t size = uint64_t{256} << random() % 15;
      const Address got = pool_.allocate(size + random() % size, random() % 3 * 64);
      if (got != 0) live.push_back(got);
      failed += got == 0 ? 1 : 0;
    } else if (dice < 990) {
      if (live.empty()) continue;
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(pool_.free(live.back()));
      live.pop_back();
    } else if (dice < 997) {
      if (live.empty()) continue;
      ASSERT_TRUE(pool_.record_stream(live[random() % live.size()], 128));
    } else if (dice < 999) {
      gpu_.advance(static_cast<int64_t>(random() % 100'000));
    } else if (random() % 100 == 0) {
      (void)pool_.trim(random() % 64 * kMiB);
    }
    if (i % 10'000 != 0) continue;
    ASSERT_TRUE(pool_.validate(&why)) << why << " after " << i;
  }
  EXPECT_GT(failed, 0u) << "the device was never full";
  for (const Address address : live) ASSERT_TRUE(pool_.free(address));
  (void)pool_.trim(UINT64_MAX);
  EXPECT_EQ(gpu_.used_bytes(0), 0u);
}

}  // namespace
}  // namespace vram::pool
