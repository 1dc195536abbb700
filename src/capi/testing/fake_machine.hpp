// FakeMachine: a test's machine with fake GPUs, and the pools that it opens on them. Their memory
// is real: a test writes to blocks as a kernel would.
#pragma once

#include "base/bytes.hpp"
#include "gpu/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <vram/vram.h>

extern "C" int cuInit(unsigned flags);  // NOLINT(readability-identifier-naming): CUDA's name

namespace vram::capi {

class FakeMachine : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("VRAM_CUDA_DRIVER", fake_cuda_path().c_str(), 1), 0);
    start_machine();
  }
  // A process starts its driver once; a test with a new machine must start it again.
  static void start_machine() {
    fake_cuda_reset(2, 256 * kMiB);
    ASSERT_EQ(cuInit(0), 0);
  }
  void TearDown() override {
    fake_cuda_heal();
    for (vram_pool* pool : pools_) EXPECT_EQ(vram_pool_close(pool), VRAM_OK);
    const FakeCudaAlive alive = fake_cuda_alive();
    EXPECT_EQ(alive.handles + alive.mappings + alive.reservations + alive.segments, 0u);
    EXPECT_EQ(alive.events, 0u);
    EXPECT_EQ(alive.contexts, 0u);
  }
  vram_pool* open(int device = 0, uint64_t limit_bytes = 0) {
    vram_pool_options options{};
    options.limit_bytes = limit_bytes;
    options.struct_bytes = sizeof options;
    vram_pool* pool = nullptr;
    EXPECT_EQ(vram_pool_open(device, &options, &pool), VRAM_OK) << vram_last_error();
    if (pool != nullptr) pools_.push_back(pool);
    return pool;
  }
  static void* alloc(vram_pool* pool, size_t bytes, vram_stream stream = nullptr) {
    void* block = nullptr;
    EXPECT_EQ(vram_alloc(pool, bytes, stream, &block), VRAM_OK);
    return block;
  }
  static vram_stats stats_of(vram_pool* pool) {
    vram_stats stats{};
    stats.struct_bytes = sizeof stats;
    EXPECT_EQ(vram_get_stats(pool, &stats), VRAM_OK);
    return stats;
  }
  static void expect_valid(vram_pool* pool) {
    char why[256] = "";
    EXPECT_EQ(vram_validate(pool, why, sizeof why), 1) << why;
  }

  std::vector<vram_pool*> pools_;
};

}  // namespace vram::capi
