// vram.h: blocks, streams, hooks and failures, on fake GPUs whose memory is real.
#include "capi/testing/fake_machine.hpp"

#include <random>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vram/record.h>
#include <vram/resource.hpp>

namespace vram::capi {
namespace {

// Any values: streams are the caller's.
vram_stream stream(uintptr_t number) {
  return reinterpret_cast<vram_stream>(number);  // NOLINT(performance-no-int-to-ptr)
}

class BlocksTest : public FakeMachine {};

TEST_F(BlocksTest, EveryByteOfABlockIsItsOwn) {
  vram_pool* pool = open();
  std::mt19937_64 random(5);
  struct Live {
    unsigned char* bytes;
    size_t size;
    unsigned char mark;
  };
  std::vector<Live> live;
  const auto free_one = [&](size_t index) {
    const Live gone = live[index];
    for (size_t i = 0; i < gone.size; i += 997) ASSERT_EQ(gone.bytes[i], gone.mark);
    ASSERT_EQ(gone.bytes[gone.size - 1], gone.mark);
    ASSERT_EQ(vram_free(pool, gone.bytes), VRAM_OK);
    live[index] = live.back();
    live.pop_back();
  };
  for (int i = 0; i < 6000; ++i) {
    const size_t size = 1 + random() % (size_t{1} << random() % 24);
    void* block = nullptr;
    if (random() % 100 < 55 && vram_alloc(pool, size, nullptr, &block) == VRAM_OK) {
      live.push_back({static_cast<unsigned char*>(block), size, static_cast<unsigned char>(i)});
      std::memset(block, live.back().mark, size);
    } else if (!live.empty()) {
      ASSERT_NO_FATAL_FAILURE(free_one(random() % live.size()));
    }
  }
  EXPECT_GT(stats_of(pool).stitches, 0u) << "this test needs blocks in memory that is mapped again";
  while (!live.empty()) ASSERT_NO_FATAL_FAILURE(free_one(0));
  expect_valid(pool);
}

TEST_F(BlocksTest, WrongFreesAreRefused) {
  vram_pool* pool = open();
  auto* block = static_cast<char*>(alloc(pool, 5000));
  EXPECT_EQ(vram_free(pool, block + 512), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_free(pool, nullptr), VRAM_OK);
  EXPECT_EQ(vram_free(open(1), block), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_free(pool, block), VRAM_OK);
  EXPECT_EQ(vram_free(pool, block), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_record_stream(pool, block, stream(8)), VRAM_INVALID_VALUE);
  vram_block_info info{};
  EXPECT_EQ(vram_find_block(pool, block, &info), VRAM_INVALID_VALUE);
}

TEST_F(BlocksTest, ABlockIsFoundAndOwned) {
  vram_pool* pool = open();
  auto* block = static_cast<char*>(alloc(pool, 5000, stream(8)));
  vram_block_info info{};
  ASSERT_EQ(vram_find_block(pool, block + 4999, &info), VRAM_OK);
  EXPECT_EQ(info.address, block);
  EXPECT_EQ(info.size_bytes, 5120u);
  EXPECT_EQ(info.requested_bytes, 5000u);
  EXPECT_EQ(info.stream, stream(8));
  EXPECT_EQ(vram_owns(block), 1);
  EXPECT_EQ(vram_owns(&info), 0);
}

TEST_F(BlocksTest, RecordedStreamsAreWaitedForByTheirEvents) {
  vram_pool* pool = open();
  void* block = alloc(pool, 200 * kMiB, stream(8));
  ASSERT_EQ(vram_record_stream(pool, block, stream(16)), VRAM_OK);
  fake_cuda_queue(0, stream(16));
  ASSERT_EQ(vram_free(pool, block), VRAM_OK);
  EXPECT_EQ(stats_of(pool).active_bytes.current, 200 * kMiB);
  EXPECT_NE(alloc(pool, 30 * kMiB, stream(8)), block);
  fake_cuda_finish(0, stream(16));
  EXPECT_EQ(alloc(pool, 200 * kMiB, stream(8)), block);
  EXPECT_EQ(fake_cuda_calls("cuCtxSynchronize"), 0u);
}

// As one that copies the block to its own device. On two H200 (driver of CUDA 13.0), recording an
// event of one device in a stream of the other is refused as an invalid handle.
TEST_F(BlocksTest, RecordedStreamsMayBeOfAnotherDevice) {
  vram_pool* pool = open();
  (void)open(1);
  fake_cuda_place_stream(1, stream(16));
  for (int round = 0; round < 3; ++round) {
    void* block = alloc(pool, 200 * kMiB, stream(8));
    ASSERT_EQ(vram_record_stream(pool, block, stream(16)), VRAM_OK);
    fake_cuda_queue(1, stream(16));
    ASSERT_EQ(vram_free(pool, block), VRAM_OK);
    EXPECT_EQ(stats_of(pool).active_bytes.current, 200 * kMiB);
    fake_cuda_finish(1, stream(16));
    block = alloc(pool, 200 * kMiB, stream(8));
    ASSERT_NE(block, nullptr) << "it is still held";
    ASSERT_EQ(vram_free(pool, block), VRAM_OK);
  }
  EXPECT_LE(fake_cuda_alive().events, 2u);
}

// Its handle names another stream in each thread: one thread's free would say nothing of another's
// work.
TEST_F(BlocksTest, ThePerThreadDefaultStreamIsRefusedInWords) {
  vram_pool* pool = open();
  void* block = pool;
  EXPECT_EQ(vram_alloc(pool, kMiB, stream(2), &block), VRAM_NOT_SUPPORTED);
  EXPECT_EQ(block, nullptr);
  EXPECT_NE(std::string(vram_last_error()).find("per-thread default stream"), std::string::npos);
  block = alloc(pool, kMiB, stream(8));
  EXPECT_EQ(vram_record_stream(pool, block, stream(2)), VRAM_NOT_SUPPORTED);
  EXPECT_EQ(vram_forget_stream(pool, stream(2)), VRAM_NOT_SUPPORTED);
  EXPECT_EQ(vram_alloc(pool, kMiB, stream(1), &block), VRAM_OK) << "the legacy default stream";
}

TEST_F(BlocksTest, HooksAreAskedInOrderBeforeARequestFails) {
  struct Owner {
    vram_pool* pool;
    std::vector<void*> spare;
    int calls = 0;
  };
  vram_pool* pool = open();
  Owner owner{pool, {alloc(pool, 150 * kMiB)}};
  const vram_reclaim_fn give = [](void* user, int device, size_t bytes) {
    auto& self = *static_cast<Owner*>(user);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(bytes, 200 * kMiB);
    ++self.calls;
    for (void* block : std::exchange(self.spare, {}))
      EXPECT_EQ(vram_free(self.pool, block), VRAM_OK);
    return 1;
  };
  ASSERT_EQ(vram_add_reclaim_hook(give, &owner), VRAM_OK);
  void* block = alloc(pool, 200 * kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(owner.calls, 1);
  EXPECT_EQ(vram_remove_reclaim_hook(give, &owner), VRAM_OK);
  EXPECT_EQ(vram_remove_reclaim_hook(give, &owner), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_alloc(pool, 200 * kMiB, nullptr, &block), VRAM_OUT_OF_MEMORY);
  EXPECT_EQ(owner.calls, 1);
}

TEST_F(BlocksTest, AnOomExplainsItself) {
  vram_pool* pool = open(0, 128 * kMiB);
  char text[4096] = "";
  EXPECT_EQ(vram_explain_oom(pool, text, sizeof text), 0u);
  (void)alloc(pool, 100 * kMiB);
  fake_cuda_take(0, 60 * kMiB);
  void* block = nullptr;
  ASSERT_EQ(vram_alloc(pool, 40 * kMiB, nullptr, &block), VRAM_OUT_OF_MEMORY);
  const size_t length = vram_explain_oom(pool, text, sizeof text);
  EXPECT_EQ(length, std::strlen(text));
  EXPECT_STREQ(
      text,
      "GPU 0 is out of memory: 40.00 MiB were asked for, 12.00 MiB are missing.\n"
      "The device has 256.00 MiB: the pool has reserved 100.00 MiB, others hold 60.00 MiB, "
      "96.00 MiB are free.\n"
      "Of the pool's memory 100.00 MiB are in live blocks, 0 B are freed but in use by other "
      "streams, 0 B are free, the largest piece 0 B.\n"
      "The live blocks that hold most: 1 x 100.00 MiB.\n"
      "What would help:\n"
      "  - a higher limit: it is 128.00 MiB, and the device has 68.00 MiB more\n"
      "  - 12.00 MiB less in this program (8.6 % of what it would use): a smaller batch, "
      "checkpointing, lower precision\n");
  char few[20];
  EXPECT_EQ(vram_explain_oom(pool, few, sizeof few), length);
  EXPECT_STREQ(few, "GPU 0 is out of mem");
}

TEST_F(BlocksTest, AnOomNamesTheRecordingThatSaysWhoseTheBlocksAre) {
  const std::string path = testing::TempDir() + "oom." + std::to_string(getpid()) + ".vtrace";
  vram_pool* pool = open();
  char text[4096] = "";
  void* block = nullptr;
  (void)alloc(pool, 100 * kMiB);
  ASSERT_EQ(vram_record_start(path.c_str(), nullptr), VRAM_OK);
  ASSERT_EQ(vram_alloc(pool, kGiB, nullptr, &block), VRAM_OUT_OF_MEMORY);
  (void)vram_explain_oom(pool, text, sizeof text);
  EXPECT_NE(std::string(text).find("vram report " + path + " --at oom\n"), std::string::npos);
  ASSERT_EQ(vram_record_stop(), VRAM_OK);
  (void)vram_explain_oom(pool, text, sizeof text);
  EXPECT_EQ(std::string(text).find("vram report"), std::string::npos) << "it is over";
}

TEST_F(BlocksTest, TheResourceThrowsWhatTheLibrarySays) {
  memory_resource gpu(0);
  memory_resource same(0);
  EXPECT_TRUE(gpu == same);
  void* block = gpu.allocate(kMiB);
  std::memset(block, 1, kMiB);
  same.deallocate(block, kMiB);
  EXPECT_THROW((void)gpu.allocate(512, nullptr, 1024), std::invalid_argument);
  EXPECT_THROW(memory_resource(9), std::runtime_error);
  try {
    (void)gpu.allocate(kMiB, stream(2));
    FAIL() << "the per-thread default stream is refused";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("per-thread default stream"), std::string::npos);
  }
  try {
    (void)gpu.allocate(kGiB);
    FAIL() << "there is no GiB";
  } catch (const std::bad_alloc& error) {
    EXPECT_NE(std::string(error.what()).find("1.00 GiB were asked for"), std::string::npos);
  }
}

// Some work on two streams with everything in it; what can't be had is done without.
void use(vram_pool* pool) {
  std::mt19937_64 random(3);
  std::vector<void*> live;
  for (int i = 0; i < 150; ++i) {
    void* block = nullptr;
    if (random() % 100 < 60) {
      const size_t bytes = 1 + random() % (20 * kMiB);
      if (vram_alloc(pool, bytes, stream(random() % 2 * 8), &block) != VRAM_OK) continue;
      live.push_back(block);
      if (random() % 4 == 0) (void)vram_record_stream(pool, block, stream(16));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      EXPECT_EQ(vram_free(pool, live.back()), VRAM_OK);
      live.pop_back();
    }
    if (i % 50 == 49) (void)vram_trim(pool, 8 * kMiB);
  }
  for (void* block : live) EXPECT_EQ(vram_free(pool, block), VRAM_OK);
}

TEST_F(BlocksTest, EachCallToTheDriverMayFail) {
  uint64_t calls = 0;
  {
    vram_pool* pool = open();
    use(pool);
    calls = fake_cuda_calls(nullptr);
    (void)vram_pool_close(std::exchange(pools_, {})[0]);
  }
  ASSERT_GT(calls, 200u);
  for (const int error : {2, 1, 999}) {
    for (uint64_t nth = 1; nth <= calls; nth += 7) {
      SCOPED_TRACE(nth);
      start_machine();
      fake_cuda_fail_nth(nullptr, nth, error);
      vram_pool* pool = nullptr;
      if (vram_pool_open(0, nullptr, &pool) != VRAM_OK) continue;
      use(pool);
      expect_valid(pool);
      fake_cuda_heal();
      use(pool);
      ASSERT_EQ(vram_pool_close(pool), VRAM_OK);
      ASSERT_EQ(fake_cuda_alive().used_bytes, 0u);
    }
  }
}

TEST_F(BlocksTest, ThreadsShareAPool) {
  vram_pool* pool = open();
  std::vector<std::thread> threads;
  for (uintptr_t thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([pool, thread] {
      for (int i = 0; i < 3000; ++i) {
        const size_t bytes = size_t{512} << (static_cast<size_t>(i) + thread) % 8;
        auto* block = static_cast<unsigned char*>(alloc(pool, bytes, stream(thread * 8)));
        std::memset(block, static_cast<int>(thread), bytes);
        EXPECT_EQ(block[0] + block[bytes - 1], static_cast<int>(2 * thread));
        EXPECT_EQ(vram_free(pool, block), VRAM_OK);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_valid(pool);
  EXPECT_EQ(stats_of(pool).allocated_bytes.current, 0u);
}

}  // namespace
}  // namespace vram::capi
