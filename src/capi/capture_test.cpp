// vram.h while a CUDA graph is being captured: nothing is added to the graph, and nothing
// invalidates it. Memory that no captured stream uses is allocated and freed as usual; memory that
// one uses is kept until the capture ends.
#include "capi/testing/fake_machine.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace vram::capi {
namespace {

// NOLINTNEXTLINE(performance-no-int-to-ptr): streams are the caller's, any values
vram_stream stream_of(uintptr_t number) { return reinterpret_cast<vram_stream>(number); }

constexpr uintptr_t kCaptured = 24;
// Of the device's 256 MiB, so that there is no room for a second one.
constexpr size_t kMax = 200 * kMiB;

class CaptureTest : public FakeMachine {
 protected:
  // In a stream that does not synchronize with the default one: no query of that one reveals it.
  void begin() { fake_cuda_begin_capture(0, stream_of(kCaptured)); }
  void end(vram_pool* pool) {
    EXPECT_EQ(fake_cuda_end_capture(0, stream_of(kCaptured)), 0) << "nothing added, nothing spoilt";
    expect_valid(pool);
  }
  static vram_status ask(vram_pool* pool, size_t bytes, uintptr_t number) {
    void* block = nullptr;
    const vram_status status = vram_alloc(pool, bytes, stream_of(number), &block);
    EXPECT_EQ(vram_free(pool, block), VRAM_OK);
    return status;
  }
};

TEST_F(CaptureTest, StreamsThatAreNotCapturedAreWaitedFor) {
  vram_pool* pool = open();
  void* block = alloc(pool, kMax, stream_of(8));
  ASSERT_EQ(vram_record_stream(pool, block, stream_of(16)), VRAM_OK);
  fake_cuda_queue(0, stream_of(16));
  ASSERT_EQ(vram_free(pool, block), VRAM_OK);
  begin();
  EXPECT_EQ(ask(pool, kMax, 8), VRAM_OK);
  EXPECT_GE(vram_trim(pool, SIZE_MAX), kMax);
  end(pool);
}

// Memory for the captured stream_of itself.
TEST_F(CaptureTest, TheHostWaitsInThePlaceOfACapturedStream) {
  vram_pool* pool = open();
  void* block = alloc(pool, kMax, stream_of(16));
  fake_cuda_queue(0, stream_of(16));
  ASSERT_EQ(vram_free(pool, block), VRAM_OK);
  begin();
  EXPECT_EQ(ask(pool, kMax, kCaptured), VRAM_OK);
  end(pool);
}

// Though its memory would fit better.
TEST_F(CaptureTest, WhatTheCapturedStreamHasFreedIsLeftAside) {
  vram_pool* pool = open();
  void* of_captured = alloc(pool, 80 * kMiB, stream_of(kCaptured));
  void* between = alloc(pool, 20 * kMiB, stream_of(8));  // or the two would be joined
  void* block = alloc(pool, 120 * kMiB, stream_of(16));
  ASSERT_EQ(vram_limit(pool, stats_of(pool).reserved_bytes.current), VRAM_OK);
  fake_cuda_queue(0, stream_of(16));
  begin();
  EXPECT_EQ(vram_free(pool, of_captured), VRAM_OK);
  EXPECT_EQ(vram_free(pool, block), VRAM_OK);
  EXPECT_EQ(ask(pool, 80 * kMiB, 8), VRAM_OK);
  EXPECT_EQ(vram_free(pool, between), VRAM_OK);
  end(pool);
}

// Another thread may be at the beginning or the end of a capture of any stream_of.
TEST_F(CaptureTest, NothingIsRecordedWhereThePoolKnowsOfIt) {
  vram_pool* pool = open();
  void* block = alloc(pool, kMax, stream_of(8));
  void* small = alloc(pool, kMiB, stream_of(16));
  ASSERT_EQ(vram_record_stream(pool, block, stream_of(16)), VRAM_OK);
  ASSERT_EQ(vram_begin_capture(pool), VRAM_OK);
  begin();
  const uint64_t recorded = fake_cuda_calls("cuEventRecord");
  const uint64_t waits = fake_cuda_calls("cuCtxSynchronize");
  EXPECT_EQ(vram_free(pool, block), VRAM_OK);
  EXPECT_EQ(ask(pool, kMax, 8), VRAM_OUT_OF_MEMORY) << "stream 16 may still use it";
  EXPECT_EQ(vram_free(pool, small), VRAM_OK);
  EXPECT_EQ(ask(pool, kMiB, 16), VRAM_OK) << "its own";
  (void)vram_trim(pool, SIZE_MAX);
  EXPECT_EQ(fake_cuda_calls("cuEventRecord"), recorded);
  EXPECT_EQ(fake_cuda_calls("cuCtxSynchronize"), waits);
  end(pool);
  ASSERT_EQ(vram_end_capture(pool), VRAM_OK);
  EXPECT_EQ(ask(pool, kMax, 8), VRAM_OK);
}

TEST_F(CaptureTest, WhatNoCapturedStreamUsesServesAgainAtOnce) {
  vram_pool* pool = open();
  void* block = alloc(pool, kMax, stream_of(8));
  const uint64_t reserved = stats_of(pool).reserved_bytes.current;
  begin();
  EXPECT_EQ(vram_free(pool, block), VRAM_OK);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(ask(pool, kMax, i % 2 == 0 ? 8 : 16), VRAM_OK);
  EXPECT_EQ(stats_of(pool).reserved_bytes.current, reserved);
  end(pool);
}

TEST_F(CaptureTest, ACapturedStreamsBlockServesOthersOnceItHasEnded) {
  vram_pool* pool = open();
  void* block = alloc(pool, kMax, stream_of(kCaptured));
  begin();
  EXPECT_EQ(vram_free(pool, block), VRAM_OK);
  EXPECT_EQ(ask(pool, kMax, 8), VRAM_OUT_OF_MEMORY);
  end(pool);
  EXPECT_EQ(ask(pool, kMax, 8), VRAM_OK);
}

TEST_F(CaptureTest, WhatACapturedStreamUsesIsKeptUntilItHasEnded) {
  vram_pool* pool = open();
  for (const bool is_recorded_before : {true, false}) {
    SCOPED_TRACE(is_recorded_before);
    void* block = alloc(pool, kMax, stream_of(8));
    const auto record = [&] {
      EXPECT_EQ(vram_record_stream(pool, block, stream_of(kCaptured)), VRAM_OK);
    };
    if (is_recorded_before) record();
    begin();
    if (!is_recorded_before) record();
    EXPECT_EQ(vram_free(pool, block), VRAM_OK);
    EXPECT_EQ(ask(pool, kMax, 8), VRAM_OUT_OF_MEMORY) << "its own stream_of gets it no sooner";
    EXPECT_EQ(ask(pool, kMax, 16), VRAM_OUT_OF_MEMORY);
    end(pool);
    EXPECT_EQ(ask(pool, kMax, 8), VRAM_OK);
  }
}

// After VRAM_OK the stream_of may be destroyed.
TEST_F(CaptureTest, AStreamIsForgotten) {
  vram_pool* pool = open();
  EXPECT_EQ(vram_free(pool, alloc(pool, kMax, stream_of(16))), VRAM_OK);
  begin();
  const uint64_t waits = fake_cuda_calls("cuCtxSynchronize");
  EXPECT_EQ(vram_forget_stream(pool, stream_of(16)), VRAM_OK);
  fake_cuda_destroy_stream(0, stream_of(16));
  EXPECT_EQ(ask(pool, kMax, 8), VRAM_OK);
  (void)vram_trim(pool, SIZE_MAX);
  EXPECT_EQ(fake_cuda_calls("cuCtxSynchronize"), waits);
  end(pool);
  EXPECT_EQ(fake_cuda_uses_of_destroyed_streams(), 0u);
}

// The default stream_of can't be used meanwhile.
TEST_F(CaptureTest, OfABlockingStream) {
  vram_pool* pool = open();
  void* block = alloc(pool, kMax, stream_of(8));
  ASSERT_EQ(vram_record_stream(pool, block, stream_of(16)), VRAM_OK);
  fake_cuda_queue(0, stream_of(16));
  ASSERT_EQ(vram_free(pool, block), VRAM_OK);
  fake_cuda_begin_blocking_capture(0, stream_of(kCaptured));
  EXPECT_EQ(ask(pool, kMax, 8), VRAM_OK);
  (void)vram_trim(pool, SIZE_MAX);
  EXPECT_EQ(vram_forget_stream(pool, stream_of(16)), VRAM_OK);
  fake_cuda_destroy_stream(0, stream_of(16));
  end(pool);
  EXPECT_EQ(ask(pool, kMax, 8), VRAM_OK);
  EXPECT_EQ(fake_cuda_uses_of_destroyed_streams(), 0u);
}

// Nothing but the device is left to be waited for.
TEST_F(CaptureTest, AStreamThatIsForgottenWithoutAnEventGivesItsMemoryBack) {
  vram_pool* pool = open();
  EXPECT_EQ(vram_free(pool, alloc(pool, kMax, stream_of(16))), VRAM_OK);
  fake_cuda_queue(0, stream_of(16));
  fake_cuda_fail_nth("cuEventRecord", 1, 2);
  EXPECT_EQ(vram_forget_stream(pool, stream_of(16)), VRAM_OK);
  fake_cuda_destroy_stream(0, stream_of(16));
  EXPECT_EQ(ask(pool, kMax, 8), VRAM_OK);
  EXPECT_EQ(fake_cuda_uses_of_destroyed_streams(), 0u);
}

TEST_F(CaptureTest, ThreadsGoOnBesideIt) {
  vram_pool* pool = open();
  auto* kept = static_cast<unsigned char*>(alloc(pool, 64 * kMiB, stream_of(8)));
  std::memset(kept, 0xAB, 64 * kMiB);
  begin();
  ASSERT_EQ(vram_record_stream(pool, kept, stream_of(kCaptured)), VRAM_OK);
  ASSERT_EQ(vram_free(pool, kept), VRAM_OK);
  std::vector<std::thread> threads;
  for (uintptr_t thread = 1; thread <= 3; ++thread) {
    threads.emplace_back([pool, thread] {
      for (int i = 0; i < 300; ++i) {
        auto* block = static_cast<unsigned char*>(alloc(pool, 24 * kMiB, stream_of(100 + thread)));
        if (block == nullptr) return;
        block[0] = block[24 * kMiB - 1] = static_cast<unsigned char>(thread);
        EXPECT_EQ(vram_free(pool, block), VRAM_OK);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 64 * kMiB; i += 4096) ASSERT_EQ(kept[i], 0xAB) << i;
  end(pool);
}

}  // namespace
}  // namespace vram::capi
