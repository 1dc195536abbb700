// The driver fails: each of its calls in turn, and at random. Nothing crashes, what failed changed
// nothing, and what a careful caller gives back is all there was.
#include "gpu/testing/page.hpp"
#include "gpu/testing/worlds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace vram::gpu::cuda {
namespace {

// Tries a call until the driver does it: faults of this test are few.
template <typename Call>
void insist(Call call) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (call() == Status::kOk) return;
  }
  FAIL() << "never done";
}

// Maps one handle and takes one segment, as far as the driver goes along; then gives back what it
// got. True if no call failed.
bool use_and_give_back(CudaMemory& gpu) {
  Address range = 0;
  Address segment = 0;
  Handle handle = 0;
  EventHandle event = 0;
  MemoryInfo info;
  const bool is_reserved = gpu.reserve(kPage, &range) == Status::kOk;
  const bool is_created = gpu.create(0, kPage, &handle) == Status::kOk;
  const bool is_mapped = is_reserved && is_created && gpu.map(range, kPage, handle) == Status::kOk;
  const bool is_open = is_mapped && gpu.set_access(range, kPage, 0) == Status::kOk;
  const bool is_segment = gpu.alloc_segment(0, kPage, &segment) == Status::kOk;
  const bool is_recorded = gpu.record(0, 1, &event) == Status::kOk;
  bool is_all = is_open && is_segment && is_recorded && gpu.memory_info(0, &info) == Status::kOk;
  if (is_recorded) {
    const std::array<Status, 3> answers = {gpu.query(event), gpu.wait(event),
                                           gpu.stream_wait(0, 2, event)};
    is_all &= std::ranges::count(answers, Status::kOk) == std::ssize(answers);
    const bool may_be_gone = std::ranges::count(answers, Status::kInvalidValue) > 0;
    EXPECT_TRUE(gpu.destroy(event) == Status::kOk || may_be_gone);
  }
  is_all &= gpu.synchronize(0) == Status::kOk;
  if (is_segment) insist([&] { return gpu.free_segment(0, segment); });
  if (is_mapped) insist([&] { return gpu.unmap(range, kPage); });
  if (is_created) insist([&] { return gpu.release(handle); });
  if (is_reserved) insist([&] { return gpu.unreserve(range, kPage); });
  return is_all;
}

void expect_nothing_alive() {
  const FakeCudaAlive alive = fake_cuda_alive();
  EXPECT_EQ(alive.handles, 0u);
  EXPECT_EQ(alive.mappings, 0u);
  EXPECT_EQ(alive.reservations, 0u);
  EXPECT_EQ(alive.segments, 0u);
  EXPECT_EQ(alive.used_bytes, 0u);
}

class CudaFaultsTest : public testing::TestWithParam<int> {};

TEST_P(CudaFaultsTest, EachCallMayFailInTurn) {
  const auto result = static_cast<CUresult>(GetParam());
  int failed = 0;
  uint64_t nth = 1;
  for (;; ++nth) {
    FakeCudaWorld world;
    const uint64_t before = fake_cuda_calls(nullptr);
    fake_cuda_fail_nth(nullptr, nth, result);
    const bool is_all = use_and_give_back(world.memory());
    const bool was_reached = fake_cuda_calls(nullptr) - before >= nth;
    fake_cuda_heal();
    expect_nothing_alive();
    if (!was_reached) break;
    failed += is_all ? 0 : 1;
  }
  EXPECT_GT(nth, 60u) << "the driver is called for every call, and around it";
  EXPECT_GT(failed, 30);
}
INSTANTIATE_TEST_SUITE_P(Answers, CudaFaultsTest, testing::Values(1, 2, 208, 600, 801, 999));

TEST(CudaRandomFaultsTest, CallsThatFailChangeNothing) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FakeCudaWorld world;
    fake_cuda_fail_at_random(nullptr, 0.05, seed, kErrorUnknown);
    for (int i = 0; i < 50; ++i) (void)use_and_give_back(world.memory());
    fake_cuda_heal();
    expect_nothing_alive();
    EXPECT_TRUE(use_and_give_back(world.memory()));
  }
}

// What each call answers, one after the other, whatever the ones before answered.
std::vector<Status> answers_of(CudaMemory& gpu) {
  Address range = kPage;
  Address segment = kPage;
  Handle handle = 1;
  EventHandle event = 0;
  MemoryInfo info;
  std::vector<Status> answers = {
      gpu.memory_info(0, &info),       gpu.reserve(kPage, &range),
      gpu.create(0, kPage, &handle),   gpu.map(range, kPage, handle),
      gpu.set_access(range, kPage, 0), gpu.alloc_segment(0, kPage, &segment),
      gpu.record(0, 1, &event)};
  if (event != 0) answers.push_back(gpu.query(event));
  for (const Status status :
       {gpu.synchronize(0), gpu.free_segment(0, segment), gpu.unmap(range, kPage),
        gpu.release(handle), gpu.unreserve(range, kPage)}) {
    answers.push_back(status);
  }
  return answers;
}

TEST(CudaLostDeviceTest, FromTheFirstFaultOnEverythingIsAFault) {
  bool was_lost = true;
  uint64_t nth = 1;
  for (; was_lost; ++nth) {
    FakeCudaWorld world;
    fake_cuda_fail_nth(nullptr, nth, kErrorIllegalAddress);
    const std::vector<Status> answers = answers_of(world.memory());
    fake_cuda_heal();
    const auto first = std::find(answers.begin(), answers.end(), Status::kFault);
    EXPECT_EQ(std::count(answers.begin(), first, Status::kOk), first - answers.begin());
    EXPECT_EQ(std::count(first, answers.end(), Status::kFault), answers.end() - first);
    const bool is_around_a_call = first == answers.end();  // a failure to restore the thread
    was_lost = !is_around_a_call || nth < 60;
  }
  EXPECT_GE(nth, 60u);
}

}  // namespace
}  // namespace vram::gpu::cuda
