// What Nvml queries in turn and keeps in between: the traffic that GPM reports, how busy processes
// are, which are clients of MPS; and counters that are not queried again. The order of samples: the
// first queries everything, the second opens GPM, the third has its first figures.
#include "base/bytes.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/testing/fake_libraries.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace vram::gpu::nvml {
namespace {

using gpu::testing::Calls;
using gpu::testing::Environment;
using gpu::testing::fake_nvml;
using gpu::testing::Scenario;

const std::string kDevice = "device 0\ntotal 1000M\nused 10M\nutilization 5 5\n";

bool has_traffic(const DeviceSample& sample) {
  return sample.memory_bandwidth_percent || sample.pcie_sent_bytes_per_second ||
         sample.pcie_received_bytes_per_second || sample.nvlink_sent_bytes_per_second ||
         sample.nvlink_received_bytes_per_second;
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

const DeviceProcess& process_of(const DeviceSample& sample, uint32_t pid) {
  static const DeviceProcess kNone;
  for (const DeviceProcess& process : sample.processes.value()) {
    if (process.pid == pid) return process;
  }
  ADD_FAILURE() << "no process " << pid;
  return kNone;
}

class NvmlTurnsTest : public ::testing::TestWithParam<std::string> {
 protected:
  static Nvml open() { return Nvml::open(fake_nvml(GetParam())).value(); }
  static DeviceSample sample_after(const Nvml& nvml, int samples) {
    for (int i = 0; i < samples; ++i) (void)nvml.sample(0);
    return nvml.sample(0);
  }
  static bool has_gpm() { return GetParam() == "535" || GetParam() == "3"; }
};
INSTANTIATE_TEST_SUITE_P(Generations, NvmlTurnsTest, ::testing::Values("1", "2", "535", "3"));

TEST_P(NvmlTurnsTest, GpmTellsTheTrafficFromTheThirdSampleOn) {
  const Scenario scenario(kDevice + "gpm 37.4 1000 0.5 30 40\n");
  const Nvml nvml = open();
  EXPECT_FALSE(has_traffic(nvml.sample(0)));
  EXPECT_FALSE(has_traffic(nvml.sample(0)));
  const DeviceSample sample = nvml.sample(0);
  if (!has_gpm()) {
    EXPECT_FALSE(has_traffic(sample));
    return;
  }
  EXPECT_EQ(sample.memory_bandwidth_percent, 37U);
  EXPECT_EQ(sample.pcie_sent_bytes_per_second, 1000 * kMiB);
  EXPECT_EQ(sample.pcie_received_bytes_per_second, kMiB / 2);
  EXPECT_EQ(sample.nvlink_sent_bytes_per_second, 30 * kMiB);
  EXPECT_EQ(sample.nvlink_received_bytes_per_second, 40 * kMiB);
  scenario.change(kDevice + "gpm 80 1 1 1 1\n");
  EXPECT_EQ(nvml.sample(0).memory_bandwidth_percent, 37U);  // until its turn comes
  EXPECT_EQ(sample_after(nvml, 2).memory_bandwidth_percent, 80U);
}

TEST(NvmlTurns, TrafficThatCantBeIsUnknown) {
  const Scenario scenario(kDevice + "gpm 100.4 - nan -5 1e8\n");  // 1e8 MiB/s are 105 TB/s
  const Nvml nvml = Nvml::open(fake_nvml("3")).value();
  for (int i = 0; i < 2; ++i) (void)nvml.sample(0);
  const DeviceSample sample = nvml.sample(0);
  EXPECT_EQ(sample.memory_bandwidth_percent, 100U);
  EXPECT_EQ(sample.pcie_sent_bytes_per_second, std::nullopt);
  EXPECT_EQ(sample.pcie_received_bytes_per_second, std::nullopt);
  EXPECT_EQ(sample.nvlink_sent_bytes_per_second, std::nullopt);
  EXPECT_EQ(sample.nvlink_received_bytes_per_second, std::nullopt);
  scenario.change(kDevice + "gpm 100.6 0 9500000 1e300 -0.1\n");  // 9.5e6 MiB/s are 9.96 TB/s
  for (int i = 0; i < 3; ++i) (void)nvml.sample(0);
  const DeviceSample later = nvml.sample(0);
  EXPECT_EQ(later.memory_bandwidth_percent, std::nullopt);
  EXPECT_EQ(later.pcie_sent_bytes_per_second, 0U);
  EXPECT_EQ(later.pcie_received_bytes_per_second, 9'500'000 * kMiB);
  EXPECT_EQ(later.nvlink_sent_bytes_per_second, std::nullopt);
  EXPECT_EQ(later.nvlink_received_bytes_per_second, std::nullopt);
}

TEST_P(NvmlTurnsTest, WithoutSupportGpmIsAskedForOnce) {
  const Scenario scenario(kDevice);
  const Calls calls;
  EXPECT_FALSE(has_traffic(sample_after(open(), 20)));
  EXPECT_EQ(count_of(calls.lines(), "nvmlGpmQueryDeviceSupport"), has_gpm() ? 1U : 0U);
  EXPECT_EQ(count_of(calls.lines(), "nvmlGpm"), has_gpm() ? 1U : 0U);
}

TEST(NvmlTurns, WhoLooksOnceDoesNotOpenGpm) {
  const Scenario scenario(kDevice + "gpm 1 1 1 1 1\n");
  const Calls calls;
  (void)Nvml::open(fake_nvml("3")).value().sample(0);
  EXPECT_EQ(count_of(calls.lines(), "nvmlGpm"), 0U) << calls.lines();
}

TEST(NvmlTurns, GpmThatFailsForGoodIsLeftAlone) {
  const Scenario scenario(kDevice + "gpm 1 1 1 1 1\n");
  for (const char* fault : {"nvmlGpmSampleAlloc=999", "nvmlGpmSampleGet=3", "nvmlGpmSampleGet=4",
                            "nvmlGpmQueryDeviceSupport=999"}) {
    const Environment failing("FAKE_NVML_FAIL", fault);
    const Calls calls;
    const Nvml nvml = Nvml::open(fake_nvml("3")).value();
    for (int i = 0; i < 3; ++i) (void)nvml.sample(0);
    const size_t before = count_of(calls.lines(), "nvmlGpm");
    for (int i = 0; i < 8; ++i) EXPECT_FALSE(has_traffic(nvml.sample(0))) << fault;
    EXPECT_EQ(count_of(calls.lines(), "nvmlGpm"), before) << calls.lines();
  }
}

TEST(NvmlTurns, GpmThatFailsForAWhileIsUnknownForAsLong) {
  for (const char* fault : {"nvmlGpmSampleGet", "nvmlGpmMetricsGet"}) {
    const std::string fine = kDevice + "gpm 7 1 1 1 1\n";
    const Scenario scenario(fine);
    const Nvml nvml = Nvml::open(fake_nvml("3")).value();
    for (int i = 0; i < 2; ++i) (void)nvml.sample(0);
    EXPECT_TRUE(has_traffic(nvml.sample(0))) << fault;
    scenario.change(fine + "fail " + fault + " 999\n");
    for (int i = 0; i < 3; ++i) (void)nvml.sample(0);
    EXPECT_FALSE(has_traffic(nvml.sample(0))) << fault;
    scenario.change(fine);
    for (int i = 0; i < 8; ++i) (void)nvml.sample(0);
    EXPECT_EQ(nvml.sample(0).memory_bandwidth_percent, 7U) << fault;
  }
}

// The fake ends the program where a sample is freed after the library was closed.
TEST(NvmlTurns, SamplesAreGivenBack) {
  const Scenario scenario(kDevice + "gpm 1 1 1 1 1\n");
  const Calls calls;
  {
    const Nvml nvml = Nvml::open(fake_nvml("3")).value();
    for (int i = 0; i < 9; ++i) (void)nvml.sample(0);
    scenario.change(kDevice + "gpm 1 1 1 1 1\nlost\n");
    (void)nvml.sample(0);
    EXPECT_EQ(count_of(calls.lines(), "nvmlGpmSampleFree"), 2U);
    scenario.change(kDevice + "gpm 1 1 1 1 1\n");
    for (int i = 0; i < 9; ++i) (void)nvml.sample(0);
  }
  EXPECT_EQ(count_of(calls.lines(), "nvmlGpmSampleAlloc"), 4U);
  EXPECT_EQ(count_of(calls.lines(), "nvmlGpmSampleFree"), 4U);
}

TEST_P(NvmlTurnsTest, PcieCountersOf32BitsAreUnknownForGood) {
  const Scenario scenario(kDevice + "pcie 1000 2000\npcie-bits 32\nnvlink 10 20\n");
  const Nvml nvml = open();
  const DeviceSample sample = nvml.sample(0);
  EXPECT_FALSE(sample.pcie_sent_bytes || sample.pcie_received_bytes);
  scenario.change(kDevice + "pcie 1000 2000\nnvlink 10 20\n");
  const DeviceSample later = nvml.sample(0);
  EXPECT_FALSE(later.pcie_sent_bytes || later.pcie_received_bytes);  // not asked for any more
  EXPECT_EQ(later.nvlink_sent_bytes, GetParam() == "1" ? std::nullopt : std::optional(10 * kKiB));
}

TEST_P(NvmlTurnsTest, ProcessesAreAskedForTheirLoadEverySecondTick) {
  const Scenario scenario(kDevice + "process compute 5 10M max max 40\n");
  const Nvml nvml = open();
  EXPECT_EQ(process_of(nvml.sample(0), 5).busy_percent, 40U);
  const Calls calls;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(process_of(nvml.sample(0), 5).busy_percent, 40U);
  EXPECT_EQ(count_of(calls.lines(), "nvmlDeviceGetProcessUtilization"), 10U);
}

// The driver still reports one that is gone; a new one may have its pid before the next query.
TEST_P(NvmlTurnsTest, ALoadIsNeverAnotherProcesss) {
  const std::string other = kDevice + "process compute 6 10M max max 20\n";
  const Scenario scenario(other + "process gone 5 0 max max 40\n");
  const Nvml nvml = open();
  EXPECT_EQ(process_of(nvml.sample(0), 6).busy_percent, 20U);
  scenario.change(other + "process compute 5 10M\n");
  const DeviceSample sample = nvml.sample(0);
  EXPECT_EQ(process_of(sample, 5).busy_percent, std::nullopt);
  EXPECT_EQ(process_of(sample, 6).busy_percent, 20U);
}

TEST_P(NvmlTurnsTest, ClientsOfMpsAreMarkedAndLeaveWithTheirEntry) {
  const std::string alone = kDevice + "process compute 6 10M\n";
  const Scenario scenario(alone + "process compute 5 10M\nprocess mps 5 10M\nprocess mps 7 1M\n");
  const Nvml nvml = open();
  const DeviceSample sample = nvml.sample(0);
  const bool has_mps = GetParam() != "1";
  EXPECT_EQ(process_of(sample, 5).is_mps, has_mps);
  EXPECT_TRUE(process_of(sample, 5).is_compute);
  EXPECT_FALSE(process_of(sample, 6).is_mps);
  EXPECT_EQ(sample.processes->size(), has_mps ? 3U : 2U);
  if (has_mps) {
    EXPECT_TRUE(process_of(sample, 7).is_mps && process_of(sample, 7).is_compute);
  }
  (void)nvml.sample(0);  // asks for the list of MPS, and the two that follow don't
  scenario.change(alone);
  EXPECT_EQ(nvml.sample(0).processes->size(), 1U);  // nor does 7 stay any longer
  scenario.change(alone + "process compute 5 10M\n");
  EXPECT_FALSE(process_of(nvml.sample(0), 5).is_mps);  // a new one
}

// In no other list, it holds what it holds now, and in another one no more than that says.
TEST_P(NvmlTurnsTest, AClientOfMpsThatShrinksIsNeverTooLarge) {
  if (GetParam() == "1") GTEST_SKIP() << "has no list of MPS clients";
  const Scenario scenario(kDevice + "process mps 7 200M\n");
  const Nvml nvml = open();
  EXPECT_EQ(process_of(nvml.sample(0), 7).used_bytes, 200 * kMiB);
  for (uint64_t mib = 190; mib > 150; mib -= 10) {
    scenario.change(kDevice + fmt::format("process mps 7 {}M\n", mib));
    EXPECT_EQ(process_of(nvml.sample(0), 7).used_bytes, mib * kMiB);
  }
  scenario.change(kDevice + "process compute 7 20M\nprocess mps 7 20M\n");
  EXPECT_EQ(process_of(nvml.sample(0), 7).used_bytes, 20 * kMiB);
}

}  // namespace

// Devices that MIG has cut into parts, as Nvml tells them.

namespace {

using gpu::testing::Calls;
using gpu::testing::fake_nvml;
using gpu::testing::Scenario;

// One GPU instance with two compute instances, which share its memory, and another of its own.
constexpr const char* kCut = R"(
device 0
name NVIDIA H200
total 1000M
used 70M
mig on
part 1 0 500M 30M 1c.3g.71gb
part 1 1 500M 30M 1c.3g.71gb
part 5 0 200M 40M 1g.18gb
process compute 7 10M 1 0
process compute 7 20M 1 1
process compute 8 40M 5 0
)";

Nvml open() { return Nvml::open(fake_nvml("3")).value(); }

void expect_all_processes(const DeviceSample& sample) {
  const auto& processes = sample.processes.value();
  ASSERT_EQ(processes.size(), 3u);
  EXPECT_EQ(processes[0].pid, 7u);
  EXPECT_EQ(processes[0].gpu_instance, 1u);
  EXPECT_EQ(processes[0].compute_instance, 0u);
  EXPECT_EQ(processes[0].used_bytes, 10 * kMiB);
  EXPECT_EQ(processes[1].compute_instance, 1u);
  EXPECT_EQ(processes[1].used_bytes, 20 * kMiB);
  EXPECT_EQ(processes[2].pid, 8u);
  EXPECT_EQ(processes[2].gpu_instance, 5u);
}

TEST(NvmlMig, InstancesAreFoundAcrossHolesAndMemoryIsAskedForOnceAnInstance) {
  const Scenario scenario(kCut);
  const Calls calls;
  const DeviceHealth health = open().health(0);
  EXPECT_EQ(health.is_mig, true);
  ASSERT_EQ(health.mig_instances.size(), 3u);
  EXPECT_EQ(health.mig_instances[0].gpu_instance, 1u);
  EXPECT_EQ(health.mig_instances[1].compute_instance, 1u);
  EXPECT_EQ(health.mig_instances[1].memory.total_bytes, 500 * kMiB);
  EXPECT_EQ(health.mig_instances[1].memory.used_bytes, 30 * kMiB);
  EXPECT_EQ(health.mig_instances[2].memory.used_bytes, 40 * kMiB);
  EXPECT_EQ(health.mig_instances[2].profile, "1g.18gb");
  EXPECT_EQ(health.mig_instances[2].uuid, "MIG-GPU-0/5/0");
  const std::string lines = calls.lines();
  size_t asked = 0;
  for (size_t at = 0; (at = lines.find("MemoryInfo_v2", at)) != std::string::npos; ++at) ++asked;
  EXPECT_EQ(asked, 3u);  // the device, and two GPU instances
}

TEST(NvmlMig, ProcessesAreTheDevicesWhereItNamesThem) {
  const Scenario scenario(kCut);
  const Nvml nvml = open();
  expect_all_processes(nvml.sample(0));
  const Calls calls;
  expect_all_processes(nvml.sample(0));
  EXPECT_LE(std::ranges::count(calls.lines(), '\n'), 8);
}

TEST(NvmlMig, ProcessesAreThePartsWhereTheDeviceNamesNone) {
  std::string hidden;
  for (const char* version : {"", "_v2", "_v3"})
    hidden += fmt::format("fail nvmlDeviceGetComputeRunningProcesses{} 4\n", version);
  const Scenario scenario(kCut + hidden);
  const Nvml nvml = open();
  for (int tick = 0; tick < 6; ++tick) expect_all_processes(nvml.sample(0));
  const std::string without_last(kCut, std::string(kCut).find("part 5"));
  scenario.change(without_last + hidden + "process compute 7 10M 1 0\n");
  DeviceSample sample;
  for (int tick = 0; tick < 5; ++tick) sample = nvml.sample(0);
  EXPECT_EQ(sample.processes.value().size(), 1u);
}

}  // namespace
}  // namespace vram::gpu::nvml
