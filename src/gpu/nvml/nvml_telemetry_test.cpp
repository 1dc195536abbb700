// What Nvml reports of machines that scenario files describe (tests/fake_nvml/README.md).
#include "base/bytes.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/testing/fake_libraries.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace vram::gpu::nvml {
namespace {

using gpu::testing::Calls;
using gpu::testing::Environment;
using gpu::testing::fake_nvml;
using gpu::testing::Scenario;
using ::testing::ElementsAre;
using ::testing::Not;

constexpr const char* kWhole = R"(
version 550.54.15
device 0
name NVIDIA H200
uuid GPU-0
pci 0 0x19 0
compute-capability 9 0
power-limit 700000
total 1000M
used 300M
reserved 50M
utilization 37 12
celsius 45
clocks 1980 2619
milliwatts 300000
throttle 0x225     # idle, power cap, software thermal, and one that is not known
pcie 1000 2000
nvlink 10 20
gpm 50 1 2 3 4
memory-celsius 50
recovery 2
bar1 2000M 10M
ecc 1 0 5 2
rows 3 1 on off
retired 4 2 on
compute-mode 3
persistence on
mig off
process compute 101 200M max max 40
process compute 102 50M max max 400
process mps 103 20M max max 7
process mps 101 200M
process gone 104 0 max max 30
)";

std::vector<uint32_t> pids_of(const DeviceSample& sample) {
  std::vector<uint32_t> pids;
  for (const DeviceProcess& process : sample.processes.value()) pids.push_back(process.pid);
  return pids;
}

class NvmlTelemetryTest : public ::testing::TestWithParam<std::string> {
 protected:
  static Nvml open() { return Nvml::open(fake_nvml(GetParam())).value(); }
  static bool is_old() { return GetParam() == "1"; }
};
INSTANTIATE_TEST_SUITE_P(Generations, NvmlTelemetryTest, ::testing::Values("1", "2", "535", "3"));

TEST_P(NvmlTelemetryTest, IdentityIsWhatADeviceIs) {
  const Scenario scenario(kWhole);
  const DeviceIdentity identity = open().identity(0);
  EXPECT_EQ(identity.index, 0u);
  EXPECT_EQ(identity.vendor, Vendor::kNvidia);
  EXPECT_EQ(identity.name, "NVIDIA H200");
  EXPECT_EQ(identity.uuid, "GPU-0");
  EXPECT_EQ(identity.pci_id, "0000:19:00.0");
  EXPECT_EQ(identity.driver, "550.54.15");
  EXPECT_EQ(identity.power_limit_milliwatts, 700'000u);
  EXPECT_EQ(identity.compute_capability, is_old() ? std::nullopt : std::optional("9.0"));
}

TEST_P(NvmlTelemetryTest, HealthIsHowItIsDoing) {
  const Scenario scenario(kWhole);
  const DeviceHealth health = open().health(0);
  EXPECT_EQ(health.bar1.value().total_bytes, 2000 * kMiB);
  EXPECT_EQ(health.bar1.value().used_bytes, 10 * kMiB);
  EXPECT_EQ(health.bar1.value().free_bytes, 1990 * kMiB);
  EXPECT_EQ(health.ecc_since_boot.corrected, 1u);
  EXPECT_EQ(health.ecc_since_boot.uncorrected, 0u);
  EXPECT_EQ(health.ecc_ever.corrected, 5u);
  EXPECT_EQ(health.ecc_ever.uncorrected, 2u);
  EXPECT_EQ(health.compute_mode, "exclusive process");
  EXPECT_EQ(health.is_persistent, true);
  EXPECT_EQ(health.memory_celsius, is_old() ? std::nullopt : std::optional(50u));
  EXPECT_EQ(health.recovery_action, is_old() ? std::nullopt : std::optional("reboot"));
  EXPECT_EQ(health.is_mig, is_old() ? std::nullopt : std::optional(false));
  EXPECT_EQ(health.retired_pages.value().corrected, 4u);
  EXPECT_EQ(health.retired_pages.value().uncorrected, 2u);
  EXPECT_EQ(health.retired_pages.value().is_pending, true);
  EXPECT_EQ(health.remapped_rows.has_value(), !is_old());
  if (is_old()) return;
  EXPECT_EQ(health.remapped_rows->corrected, 3u);
  EXPECT_EQ(health.remapped_rows->uncorrected, 1u);
  EXPECT_TRUE(health.remapped_rows->is_pending);
  EXPECT_FALSE(health.remapped_rows->has_failed);
}

TEST_P(NvmlTelemetryTest, RetiredPagesAreToldOneByOneWhereSomeAreNotKnown) {
  const Scenario scenario("device 0\nretired 0 0 off\ndevice 1\nretired 7\n");
  const Nvml nvml = open();
  const RetiredPages none = nvml.health(0).retired_pages.value();
  EXPECT_EQ(none.corrected, 0u);
  EXPECT_EQ(none.uncorrected, 0u);
  EXPECT_EQ(none.is_pending, false);
  const RetiredPages some = nvml.health(1).retired_pages.value();
  EXPECT_EQ(some.corrected, 7u);
  EXPECT_EQ(some.uncorrected, std::nullopt);
  EXPECT_EQ(some.is_pending, std::nullopt);
  const Environment fail("FAKE_NVML_FAIL",
                         "nvmlDeviceGetRetiredPages=15 nvmlDeviceGetRetiredPages_v2=15 "
                         "nvmlDeviceGetRetiredPagesPendingStatus=3");
  EXPECT_FALSE(nvml.health(0).retired_pages.has_value());
}

TEST_P(NvmlTelemetryTest, ASampleHasEveryFigure) {
  const Scenario scenario(kWhole);
  const DeviceSample sample = open().sample(0);
  EXPECT_EQ(sample.busy_percent, 37u);
  EXPECT_EQ(sample.memory_busy_percent, 12u);
  EXPECT_EQ(sample.celsius, 45u);
  EXPECT_EQ(sample.milliwatts, 300'000u);  // from a field, or from a function of its own
  EXPECT_EQ(sample.core_mhz, 1980u);
  EXPECT_EQ(sample.memory_mhz, 2619u);
  EXPECT_THAT(sample.throttle_reasons.value(),
              ElementsAre("power cap", "software thermal", "reason 9"));
  if (is_old()) {
    EXPECT_EQ(sample.pcie_sent_bytes, std::nullopt);
    return;
  }
  EXPECT_EQ(sample.pcie_sent_bytes, 1000u);
  EXPECT_EQ(sample.pcie_received_bytes, 2000u);
  EXPECT_EQ(sample.nvlink_sent_bytes, 10 * kKiB);
  EXPECT_EQ(sample.nvlink_received_bytes, 20 * kKiB);
}

TEST_P(NvmlTelemetryTest, ProcessesOfMpsAreThereOnceAndBusyIsOfTheLastSecond) {
  const Scenario scenario(kWhole);
  const DeviceSample sample = open().sample(0);
  if (is_old()) {
    EXPECT_THAT(pids_of(sample), ElementsAre(101, 102));
    return;
  }
  EXPECT_THAT(pids_of(sample), ElementsAre(101, 102, 103));
  const auto& processes = *sample.processes;
  EXPECT_EQ(processes[0].used_bytes, 200 * kMiB);
  EXPECT_EQ(processes[0].busy_percent, 40u);
  EXPECT_EQ(processes[1].busy_percent, std::nullopt);  // 400 %
  EXPECT_EQ(processes[2].busy_percent, 7u);
  EXPECT_TRUE(processes[2].is_compute);
}

TEST_P(NvmlTelemetryTest, WhatADeviceDoesNotSayIsUnknown) {
  const Scenario scenario("devices 1\n");
  const Nvml nvml = open();
  const DeviceSample sample = nvml.sample(0);
  EXPECT_FALSE(sample.trouble.has_value());
  EXPECT_FALSE(sample.memory.total_bytes || sample.memory.used_bytes || sample.memory.free_bytes);
  EXPECT_FALSE(sample.busy_percent || sample.celsius || sample.milliwatts || sample.core_mhz);
  EXPECT_FALSE(sample.throttle_reasons || sample.pcie_sent_bytes || sample.nvlink_sent_bytes);
  EXPECT_TRUE(sample.processes.value().empty());
  const DeviceHealth health = nvml.health(0);
  EXPECT_FALSE(health.bar1 || health.ecc_ever.corrected || health.remapped_rows ||
               health.retired_pages);
  EXPECT_FALSE(health.recovery_action || health.compute_mode || health.is_persistent);
  const DeviceIdentity identity = nvml.identity(0);
  EXPECT_FALSE(identity.pci_id || identity.compute_capability);
}

TEST(NvmlTelemetry, WhatCantBeIsUnknown) {
  const Scenario scenario(
      "device 0\ntotal max\nused 5M\ncelsius max\nclocks max max\nmilliwatts max\npcie max max\n"
      "utilization max 101\nthrottle max\necc max max max max\nmemory-celsius 70000\nrecovery 77\n"
      "compute-capability 9 max\nbar1 max max\nnvlink 0x7fffffffffffffff 1\npower-limit "
      "max\nprocess compute 1 max\n");
  const Nvml nvml = Nvml::open(fake_nvml("3")).value();
  const DeviceSample sample = nvml.sample(0);
  EXPECT_FALSE(sample.memory.total_bytes || sample.memory.used_bytes || sample.memory.free_bytes);
  EXPECT_FALSE(sample.celsius || sample.core_mhz || sample.milliwatts || sample.pcie_sent_bytes);
  EXPECT_FALSE(sample.busy_percent || sample.memory_busy_percent || sample.throttle_reasons);
  EXPECT_FALSE(sample.nvlink_sent_bytes);
  EXPECT_EQ(sample.nvlink_received_bytes, kKiB);
  EXPECT_EQ(sample.processes.value().at(0).used_bytes, std::nullopt);
  const DeviceHealth health = nvml.health(0);
  EXPECT_FALSE(health.bar1 || health.ecc_ever.corrected || health.memory_celsius);
  EXPECT_EQ(health.recovery_action, "number 77");
  const DeviceIdentity identity = nvml.identity(0);
  EXPECT_FALSE(identity.power_limit_milliwatts || identity.compute_capability);
}

TEST_P(NvmlTelemetryTest, ATickIsEightFastCallsAtMost) {
  const Scenario scenario(kWhole);
  const Nvml nvml = open();
  const Calls calls;
  for (int first = 0; first < 2; ++first) (void)nvml.sample(0);
  for (int tick = 0; tick < 20; ++tick) {
    calls.clear();
    const DeviceSample sample = nvml.sample(0);
    const std::string lines = calls.lines();
    EXPECT_LE(std::ranges::count(lines, '\n'), 9) << lines << "and one for a client of MPS alone";
    EXPECT_THAT(lines, Not(::testing::HasSubstr("PcieThroughput")));
    EXPECT_TRUE(sample.celsius && sample.core_mhz && sample.milliwatts && sample.throttle_reasons);
  }
}

TEST_P(NvmlTelemetryTest, ATickOfADeviceThatSaysNothingHasNoMoreCalls) {
  const Scenario scenario("devices 1\n");
  const Nvml nvml = open();
  for (int first = 0; first < 2; ++first) (void)nvml.sample(0);
  for (const char* answer : {"3", "4", "6", "21"}) {
    std::string all;
    for (const char* what : {"MemoryInfo", "ComputeRunningProcesses", "GraphicsRunningProcesses",
                             "MPSComputeRunningProcesses"}) {
      for (const char* version : {"", "_v2", "_v3"})
        all += fmt::format("nvmlDeviceGet{}{}={} ", what, version, answer);
    }
    const Environment broken("FAKE_NVML_FAIL", all);
    for (int tick = 0; tick < 8; ++tick) {
      const Calls calls;
      (void)nvml.sample(0);
      EXPECT_LE(std::ranges::count(calls.lines(), '\n'), 8) << calls.lines();
    }
  }
}

TEST_P(NvmlTelemetryTest, EachFigureIsNewAfterFourTicks) {
  const Scenario scenario(kWhole);
  const Nvml nvml = open();
  (void)nvml.sample(0);
  std::string changed = kWhole;
  changed += "celsius 1\nclocks 2 3\nmilliwatts 4\nthrottle 0\nprocess mps 105 1M\n";
  for (const char* old : {"celsius 45\n", "clocks 1980 2619\n", "milliwatts 300000\n"})
    changed.erase(changed.find(old), std::string(old).size());
  changed.erase(changed.find("throttle"), changed.find("pcie") - changed.find("throttle"));
  scenario.change(changed);
  for (int tick = 0; tick < 3; ++tick) (void)nvml.sample(0);
  const DeviceSample sample = nvml.sample(0);
  EXPECT_EQ(sample.celsius, 1u);
  EXPECT_EQ(sample.core_mhz, 2u);
  EXPECT_EQ(sample.memory_mhz, 3u);
  EXPECT_EQ(sample.milliwatts, 4u);
  EXPECT_TRUE(sample.throttle_reasons.value().empty());
  if (!is_old()) {
    EXPECT_THAT(pids_of(sample), ElementsAre(101, 102, 103, 105));
  }
}

TEST_P(NvmlTelemetryTest, ProcessesComeAndGo) {
  const std::string device = "device 0\ntotal 1000M\n";
  const Scenario scenario(device + "process compute 1 10M\n");
  const Nvml nvml = open();
  EXPECT_THAT(pids_of(nvml.sample(0)), ElementsAre(1));
  scenario.change(device + "process compute 1 10M\nprocess graphics 2 20M\n");
  EXPECT_THAT(pids_of(nvml.sample(0)), ElementsAre(1, 2));
  scenario.change(device + "process graphics 2 20M\n");
  EXPECT_THAT(pids_of(nvml.sample(0)), ElementsAre(2));
}

TEST_P(NvmlTelemetryTest, ALostDeviceTakesNoOtherWithIt) {
  const std::string both = "device 0\ntotal 1000M\nused 1M\ncelsius 9\n";
  const Scenario scenario(both + "device 1\ntotal 1000M\nused 2M\n");
  const Nvml nvml = open();
  EXPECT_EQ(nvml.sample(0).memory.used_bytes, kMiB);
  scenario.change(both + "lost\ndevice 1\ntotal 1000M\nused 2M\n");
  const DeviceSample lost = nvml.sample(0);
  EXPECT_EQ(lost.trouble, "GPU is lost (15)");
  EXPECT_FALSE(lost.memory.total_bytes || lost.celsius || lost.processes);
  EXPECT_EQ(nvml.sample(1).memory.used_bytes, 2 * kMiB);
  EXPECT_EQ(nvml.identity(0).name, std::nullopt);
  scenario.change(both + "device 1\ntotal 1000M\nused 2M\n");
  EXPECT_EQ(nvml.sample(0).memory.used_bytes, kMiB);
}

TEST_P(NvmlTelemetryTest, ADriverThatWasReloadedIsOpenedAnew) {
  const std::string device = "device 0\ntotal 1000M\nused 1M\n";
  const Scenario scenario(device);
  {
    const Nvml nvml = open();
    scenario.change("driver unloaded\n" + device);
    EXPECT_EQ(nvml.sample(0).trouble, "Something Else (9)");
    EXPECT_FALSE(nvml.device_count().has_value());
    scenario.change(device);
    EXPECT_TRUE(nvml.sample(0).trouble.has_value());  // what was open stays dead
    scenario.change("driver unloaded\n" + device);
  }
  EXPECT_EQ(Nvml::open(fake_nvml(GetParam())).error().code, Code::kNotFound);
  scenario.change(device);
  EXPECT_EQ(open().sample(0).memory.used_bytes, kMiB);
}

TEST(NvmlTelemetry, TheNewerTemperatureIsAskedForWhereTheOlderIsGone) {
  const Scenario scenario("device 0\ncelsius 61\nfail nvmlDeviceGetTemperature 26\n");
  EXPECT_EQ(Nvml::open(fake_nvml("3")).value().sample(0).celsius, 61u);
  EXPECT_EQ(Nvml::open(fake_nvml("2")).value().sample(0).celsius, std::nullopt);
}

}  // namespace
}  // namespace vram::gpu::nvml
