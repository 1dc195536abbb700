// The whole test on the fake CUDA driver, whose memory is real memory.
#include "base/bytes.hpp"
#include "doctor/stress/stress.hpp"
#include "doctor/stress/testing/bad_gpu.hpp"
#include "gpu/cuda/cuda_copies.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "gpu/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

namespace vram::doctor {
namespace {

using gpu::cuda::CudaCopies;
using gpu::cuda::CudaMemory;

class CudaStressTest : public testing::Test {
 protected:
  CudaStressTest() {
    fake_cuda_reset(1, 24 * kMiB);
    driver_ = gpu::cuda::DriverApi::load(fake_cuda_path()).value();
  }

  // With several lanes, as on a real device.
  StressReport run() {
    const auto memory = CudaMemory::open(driver_, 0).value();
    const auto copies =
        CudaCopies::open(driver_, gpu::cuda::CopyApi::load(fake_cuda_path()).value(), 0).value();
    StressReport report;
    {
      const auto answer = [&](gpu::Call, Status) {
        return driver_.name_of(memory->last_failure());
      };
      Card card(*memory, *copies, 0, 3, answer);
      StepClock clock;
      StressOptions options;
      options.length_ns = 20'000'000;
      options.leave_bytes = 2 * kMiB;
      options.clock = clock.function();
      report = run_stress(card, options);
    }
    const FakeCudaAlive alive = fake_cuda_alive();
    EXPECT_EQ(alive.handles + alive.mappings + alive.reservations + alive.segments, 0u);
    EXPECT_EQ(alive.used_bytes, 0u);
    EXPECT_EQ(alive.pinned, 0u);
    EXPECT_EQ(alive.streams, 0u);
    return report;
  }
  gpu::cuda::DriverApi driver_;
};

TEST_F(CudaStressTest, Passes) {
  const StressReport report = run();
  EXPECT_EQ(report.verdict(), Verdict::kPassed);
  EXPECT_EQ(report.fill.obtained_bytes, 22 * kMiB);
  EXPECT_GT(report.storm.checked_blocks, 0u);
  EXPECT_EQ(fake_cuda_alive().contexts, 0u);
}

TEST_F(CudaStressTest, PassesWithoutVirtualMemory) {
  fake_cuda_set_virtual_memory(0, false);
  const StressReport report = run();
  EXPECT_EQ(report.verdict(), Verdict::kPassed) << report.failures.size();
  EXPECT_EQ(report.fill.obtained_bytes, 22 * kMiB);
  EXPECT_GT(report.storm.allocations, 0u);
}

TEST_F(CudaStressTest, ABitThatComesOutWrongIsFound) {
  // Behind the copies that measure: three kinds to the host, each made at most 41 times.
  fake_cuda_spoil_copy(140);
  const StressReport report = run();
  ASSERT_EQ(report.bad.count, 1u);
  EXPECT_EQ(report.bad.first.front().bits(), 4u);
  EXPECT_EQ(report.verdict(), Verdict::kErrors);
}

TEST_F(CudaStressTest, FailuresCarryTheCallAndTheDriversWord) {
  fake_cuda_fail_nth("cuMemSetAccess", 3, gpu::cuda::kErrorUnknown);
  const StressReport report = run();
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures.front().call, "cuMemSetAccess");
  EXPECT_EQ(report.failures.front().answer, "CUDA_ERROR_UNKNOWN (999)");
  EXPECT_EQ(report.failures.front().phase, "figures");
}

TEST_F(CudaStressTest, OthersMemoryIsNotTaken) {
  fake_cuda_take(0, 10 * kMiB);
  const StressReport report = run();
  EXPECT_EQ(report.verdict(), Verdict::kPassed);
  EXPECT_EQ(report.fill.free_bytes, 14 * kMiB);
  EXPECT_EQ(report.fill.obtained_bytes, 12 * kMiB);
}

}  // namespace
}  // namespace vram::doctor
