// The pool of all threads: blocks by address, competition, what lies on shelves.
#include "pool/shared_pool.hpp"

#include "base/bytes.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "pool/device_on.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace vram::pool {
namespace {

gpu::SimOptions device_of(uint64_t bytes) {
  gpu::SimOptions options;
  options.devices = {gpu::SimDevice{.capacity_bytes = bytes}};
  return options;
}

class SharedPoolTest : public testing::Test {
 protected:
  void TearDown() override {
    std::string why;
    EXPECT_TRUE(pool_.validate(&why)) << why;
  }
  gpu::SimGpu gpu_{device_of(256 * kMiB)};
  DeviceOn<gpu::SimGpu> device_{gpu_, 0};
  SharedPool pool_{device_, {.handle_bytes = 4 * kMiB}};
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

// Ten million operations of every kind, with all that must hold looked at on the way.
TEST_F(SharedPoolTest, TenMillionRandomOperations) {
  std::mt19937_64 random(1);
  std::vector<Address> live;
  uint64_t failed = 0;
  std::string why;
  for (int i = 0; i < 10'000'000; ++i) {
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
