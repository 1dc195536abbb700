// The whole test on the simulated GPU: what it says, that it gives everything back whatever call
// fails, and that it ends when asked to.
#include "stress/stress.hpp"

#include "base/bytes.hpp"
#include "gpu/cuda/cuda_copies.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "gpu/testing/fake_cuda.hpp"
#include "stress/storm.hpp"
#include "stress/testing/bad_gpu.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

namespace vram::stress {
namespace {

constexpr uint64_t kCardBytes = 24 * kMiB;

StressOptions options_for(StepClock& clock, int64_t length_ns) {
  StressOptions options;
  options.length_ns = length_ns;
  options.leave_bytes = 2 * kMiB;
  options.seed = 5;
  options.clock = clock.function();
  return options;
}

void expect_all_given_back(const gpu::SimGpu& gpu) {
  EXPECT_EQ(gpu.used_bytes(0), 0u);
  EXPECT_EQ(gpu.pinned_count(), 0u);
  EXPECT_EQ(gpu.stream_count(), 0u);
  std::string why;
  EXPECT_TRUE(gpu.validate(&why)) << why;
}

const Figure* find(const StressReport& report, std::string_view name) {
  for (const Figure& figure : report.figures) {
    if (figure.name == name) return &figure;
  }
  return nullptr;
}

TEST(Stress, GoodMemoryPassesWithAllFigures) {
  BadGpu gpu(kCardBytes);
  auto card = card_on(gpu);
  StepClock clock;
  const StressReport report = run_stress(card, options_for(clock, 60'000'000));
  EXPECT_EQ(report.verdict(), Verdict::kPassed);
  EXPECT_EQ(report.bad.count, 0u);
  EXPECT_FALSE(report.was_cut_short);
  EXPECT_EQ(report.device.total_bytes, kCardBytes);
  EXPECT_EQ(report.fill.obtained_bytes, kCardBytes - 2 * kMiB);
  EXPECT_GT(report.storm.allocations, 100u);
  EXPECT_EQ(report.storm.checked_blocks, report.storm.allocations);
  EXPECT_GT(report.storm.validations, 0u);
  EXPECT_FALSE(report.storm.invalid);
  EXPECT_GE(report.storm.peak_reserved_bytes, report.storm.peak_requested_bytes);
  for (const char* name : {"host to device, pinned", "device to host, pageable", "device to device",
                           "cuMemCreate", "cuMemMap", "cuMemRelease", "cuMemAlloc", "pool allocate",
                           "pool free", "pool utilization", "obtained of free"}) {
    const Figure* const figure = find(report, name);
    ASSERT_NE(figure, nullptr) << name;
    EXPECT_GT(figure->median, 0u) << name;
  }
  // Each call to the clock takes 10 us, and a call is between two of them.
  EXPECT_EQ(find(report, "cuMemCreate")->median, 10'000u);
  EXPECT_EQ(find(report, "obtained of free")->median, 916'666u);  // 22 of 24 MiB
  expect_all_given_back(gpu);
}

TEST(Stress, TheSameSeedMakesTheSameRequests) {
  std::vector<uint64_t> counts;
  for (int i = 0; i < 2; ++i) {
    BadGpu gpu(kCardBytes);
    auto card = card_on(gpu);
    StepClock clock;
    const auto now = clock.function();
    const Budget budget("storm", now, nullptr, 10'000'000);
    Ledger ledger;
    const Storm storm = run_storm(card, {.leave_bytes = 2 * kMiB, .seed = 7}, budget, {}, ledger);
    counts.push_back(storm.report.allocations);
    counts.push_back(storm.report.peak_requested_bytes);
  }
  EXPECT_EQ(counts[0], counts[2]);
  EXPECT_EQ(counts[1], counts[3]);
}

TEST(Stress, StormsFindMemoryThatChangesUnderBlocks) {
  BadGpu gpu(kCardBytes);
  auto card = card_on(gpu);
  // The first word of the pool's first handle: where a block begins.
  const Place place{.handle_number = 1, .offset_bytes = 3, .bit = 2};
  gpu.stick(place);
  StepClock clock;
  const auto now = clock.function();
  const Budget budget("storm", now, nullptr, 30'000'000);
  Ledger ledger;
  (void)run_storm(card, {.leave_bytes = 2 * kMiB, .seed = 7}, budget, {}, ledger);
  const BadWords bad = ledger.take();
  ASSERT_GT(bad.count, 0u);
  EXPECT_EQ(bad.by_bit[26], bad.count);
  EXPECT_EQ(bad.first.front().pattern, "marks of blocks");
  expect_all_given_back(gpu);
}

// One run in which a call fails once; what it was, where that is reported.
std::optional<std::string> run_with_fault(std::optional<gpu::Call> only, uint64_t nth,
                                          Status status) {
  SCOPED_TRACE(fmt::format("{} {}: {}", only ? to_string(*only) : "call", nth, to_string(status)));
  BadGpu gpu(8 * kMiB);
  only ? gpu.faults().fail_nth(*only, nth, status) : gpu.faults().fail_nth(nth, status);
  auto card = card_on(gpu);
  StepClock clock;
  const StressReport report = run_stress(card, options_for(clock, 3'000'000));
  expect_all_given_back(gpu);
  EXPECT_EQ(report.bad.count, 0u);
  if (report.failures.empty()) {
    EXPECT_NE(report.verdict(), Verdict::kErrors);
    return std::nullopt;
  }
  EXPECT_EQ(status, Status::kInvalidValue) << "running out of memory is no failure";
  EXPECT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures.front().answer, to_string(status));
  EXPECT_EQ(report.verdict(), Verdict::kErrors);
  return report.failures.front().call;
}

// Whichever call fails, all is given back; a failure that no correct program meets is reported.
TEST(Stress, AFailingCallAtEachPositionLeavesNothingBehind) {
  std::set<std::string> calls;
  for (const Status status : {Status::kOutOfMemory, Status::kInvalidValue}) {
    for (uint64_t nth = 1; nth < 1000; nth += nth < 20 ? 1 : 97)
      (void)run_with_fault(std::nullopt, nth, status);
    for (size_t i = 0; i < gpu::kCallCount; ++i) {
      for (const uint64_t nth : {uint64_t{1}, uint64_t{4}}) {
        const auto call = run_with_fault(static_cast<gpu::Call>(i), nth, status);
        if (call) calls.insert(*call);
      }
    }
  }
  for (const gpu::Call call :
       {gpu::Call::kMemoryInfo, gpu::Call::kReserve,      gpu::Call::kCreate,
        gpu::Call::kMap,        gpu::Call::kSetAccess,    gpu::Call::kUnmap,
        gpu::Call::kRelease,    gpu::Call::kUnreserve,    gpu::Call::kPin,
        gpu::Call::kUnpin,      gpu::Call::kCreateStream, gpu::Call::kDestroyStream,
        gpu::Call::kCopyIn,     gpu::Call::kCopyOut,      gpu::Call::kCopy,
        gpu::Call::kFill,       gpu::Call::kRecord,       gpu::Call::kQuery,
        gpu::Call::kWait,       gpu::Call::kDestroy}) {
    EXPECT_TRUE(calls.contains(std::string(to_string(call)))) << to_string(call);
  }
}

TEST(Stress, ADeviceThatIsLostIsToldByItsFirstCall) {
  BadGpu gpu(kCardBytes);
  gpu.faults().fail_nth(gpu::Call::kCopyOut, 5, Status::kFault);
  auto card = card_on(gpu);
  StepClock clock;
  const StressReport report = run_stress(card, options_for(clock, 60'000'000));
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures.front().call, "cuMemcpyDtoHAsync");
  EXPECT_EQ(report.failures.front().phase, "figures");
  EXPECT_EQ(report.verdict(), Verdict::kErrors);
  EXPECT_EQ(report.storm.allocations, 0u);
}

TEST(Stress, StopsWhenToldAndGivesAllBack) {
  BadGpu gpu(kCardBytes);
  auto card = card_on(gpu);
  StepClock clock;
  std::atomic<bool> stop = false;
  StressOptions options = options_for(clock, 120'000'000);
  options.stop = &stop;
  // In the middle of the fill.
  const auto now = clock.function();
  options.clock = [&, now] {
    const int64_t time_ns = now();
    if (time_ns > 22'000'000) stop = true;
    return time_ns;
  };
  const StressReport report = run_stress(card, options);
  EXPECT_TRUE(report.was_cut_short);
  EXPECT_EQ(report.verdict(), Verdict::kCutShort);
  EXPECT_GT(report.fill.compared_bytes, 0u);
  EXPECT_EQ(report.storm.allocations, 0u);
  expect_all_given_back(gpu);
}

TEST(Stress, ACardThatOthersFillIsNoError) {
  BadGpu gpu(kCardBytes);
  gpu.set_limit(0, 2 * kMiB);
  auto card = card_on(gpu);
  StepClock clock;
  const StressReport report = run_stress(card, options_for(clock, 3'000'000));
  EXPECT_EQ(report.verdict(), Verdict::kUntested);
  EXPECT_EQ(report.fill.obtained_bytes, 0u);
  expect_all_given_back(gpu);
}

TEST(Stress, TheMarginIsAFiftiethAndLeavesHalf) {
  EXPECT_EQ(default_margin(100 * kGiB, 140 * kGiB), 140 * kGiB / 50);
  EXPECT_EQ(default_margin(10 * kGiB, 16 * kGiB), 512 * kMiB);
  EXPECT_EQ(default_margin(200 * kMiB, 16 * kGiB), 100 * kMiB);
}

}  // namespace

// The whole test on the fake CUDA driver, whose memory is real memory.

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
  fake_cuda_spoil_copy(1);
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
}  // namespace vram::stress
