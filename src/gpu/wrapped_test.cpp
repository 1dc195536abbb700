// Each call passes the function once, under its own name, and gets what the function answers.
#include "gpu/wrapped.hpp"

#include "gpu/sim/sim_gpu.hpp"
#include "gpu/testing/page.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <vector>

namespace vram::gpu {
namespace {

class WrappedTest : public testing::Test {
 protected:
  // Runs the call and checks by the simulated GPU's own counts that its name is right.
  auto counting() {
    return [this](Call call, auto run) {
      const uint64_t before = gpu_.stats()[call].count;
      const Status status = run();
      EXPECT_EQ(gpu_.stats()[call].count, before + 1) << to_string(call);
      calls_.push_back(call);
      return status;
    };
  }
  // A life of a segment, of a handle and of an event.
  static void make_each_call(Memory& memory) {
    MemoryInfo info;
    EXPECT_EQ(memory.memory_info(0, &info), Status::kOk);
    Address at = 0;
    EXPECT_EQ(memory.alloc_segment(0, kPage, &at), Status::kOk);
    EXPECT_EQ(memory.free_segment(0, at), Status::kOk);
    Handle handle = 0;
    EXPECT_EQ(memory.reserve(kPage, &at), Status::kOk);
    EXPECT_EQ(memory.create(0, kPage, &handle), Status::kOk);
    EXPECT_EQ(memory.map(at, kPage, handle), Status::kOk);
    EXPECT_EQ(memory.set_access(at, kPage, 0), Status::kOk);
    EXPECT_EQ(memory.unmap(at, kPage), Status::kOk);
    EXPECT_EQ(memory.release(handle), Status::kOk);
    EXPECT_EQ(memory.unreserve(at, kPage), Status::kOk);
    EventHandle event = 0;
    EXPECT_EQ(memory.record(0, 1, &event), Status::kOk);
    EXPECT_EQ(memory.query(event), Status::kOk);
    EXPECT_EQ(memory.wait(event), Status::kOk);
    EXPECT_EQ(memory.stream_wait(0, 2, event), Status::kOk);
    EXPECT_EQ(memory.destroy(event), Status::kOk);
    EXPECT_EQ(memory.synchronize(0), Status::kOk);
  }
  void make_each_call(Copies& copies) {
    Address at = 0;
    ASSERT_EQ(gpu_.alloc_segment(0, 2 * kPage, &at), Status::kOk);
    void* host = nullptr;
    ASSERT_EQ(copies.pin(kPage, &host), Status::kOk);
    StreamHandle stream = 0;
    EXPECT_EQ(copies.create_stream(0, &stream), Status::kOk);
    EXPECT_EQ(copies.copy_in(0, stream, at, host, kPage), Status::kOk);
    EXPECT_EQ(copies.copy_out(0, stream, host, at, kPage), Status::kOk);
    EXPECT_EQ(copies.copy(0, stream, at + kPage, at, kPage), Status::kOk);
    EXPECT_EQ(copies.fill(0, stream, at, 7, kPage), Status::kOk);
    EXPECT_EQ(copies.destroy_stream(stream), Status::kOk);
    EXPECT_EQ(copies.unpin(host), Status::kOk);
    EXPECT_EQ(gpu_.free_segment(0, at), Status::kOk);
  }

  SimGpu gpu_{{.backing = true}};
  std::vector<Call> calls_;
};

TEST_F(WrappedTest, EachCallPassesOnceByItsName) {
  WrappedMemory memory(gpu_, counting());
  make_each_call(memory);
  WrappedCopies copies(gpu_, counting());
  make_each_call(copies);
  std::set<Call> all;
  for (size_t i = 0; i < kCallCount; ++i) all.insert(static_cast<Call>(i));
  all.erase(Call::kMallocAsync);  // these two are in neither interface
  all.erase(Call::kFreeAsync);
  EXPECT_EQ(std::set(calls_.begin(), calls_.end()), all);
  EXPECT_EQ(calls_.size(), all.size());
}

TEST_F(WrappedTest, WhatTheFunctionAnswersIsTheAnswer) {
  WrappedMemory memory(gpu_, [](Call, auto) { return Status::kFault; });
  EXPECT_EQ(memory.synchronize(0), Status::kFault);
  EXPECT_EQ(gpu_.stats()[Call::kSynchronize].count, 0u);
  EXPECT_EQ(memory.granularity_bytes(), gpu_.granularity_bytes());
  EXPECT_EQ(memory.device_count(), gpu_.device_count());
}

}  // namespace
}  // namespace vram::gpu
