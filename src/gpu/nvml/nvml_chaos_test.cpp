// Nvml on a library that answers anything: it stays alive, and what it tells can be.
#include "base/bytes.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/nvml/nvml_events.hpp"
#include "gpu/testing/fake_libraries.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace vram::gpu::nvml {
namespace {

using gpu::testing::Environment;
using gpu::testing::fake_nvml;
using gpu::testing::Scenario;

constexpr const char* kMachine = R"(
device 0
pci 0 0x19 0
power-limit 700000
total 1000M
used 300M
reserved 50M
utilization 37 12
celsius 45
clocks 1980 2619
milliwatts 300000
throttle 0x25
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
compute-capability 9 0
process compute 101 200M max max 40
process graphics 101 200M
process mps 103 20M max max 7
device 1
total 1000M
used 300M
mig on
part 1 0 500M 30M 3g.71gb
part 5 0 200M 40M 1g.18gb
)";

void expect_possible(const DeviceMemory& memory) {
  if (!memory.total_bytes) {
    EXPECT_FALSE(memory.used_bytes || memory.free_bytes || memory.reserved_bytes);
    return;
  }
  EXPECT_GT(*memory.total_bytes, 0u);
  EXPECT_LE(memory.used_bytes.value_or(0), *memory.total_bytes);
  EXPECT_LE(memory.free_bytes.value_or(0), *memory.total_bytes);
  EXPECT_LE(memory.reserved_bytes.value_or(0), *memory.total_bytes);
}

void expect_possible(const DeviceSample& sample) {
  expect_possible(sample.memory);
  EXPECT_LE(sample.busy_percent.value_or(0), 100u);
  EXPECT_LE(sample.memory_busy_percent.value_or(0), 100u);
  EXPECT_LE(sample.memory_bandwidth_percent.value_or(0), 100u);
  for (const auto& rate :
       {sample.pcie_sent_bytes_per_second, sample.pcie_received_bytes_per_second,
        sample.nvlink_sent_bytes_per_second, sample.nvlink_received_bytes_per_second})
    EXPECT_LE(rate.value_or(0), 10'000'000'000'000u);
  EXPECT_LE(sample.celsius.value_or(0), 250u);
  if (sample.trouble) {
    EXPECT_FALSE(sample.memory.total_bytes || sample.processes);
  }
  if (!sample.processes) return;
  for (const DeviceProcess& process : *sample.processes) {
    EXPECT_LE(process.used_bytes.value_or(0), sample.memory.total_bytes.value_or(UINT64_MAX - 1));
    EXPECT_LE(process.busy_percent.value_or(0), 100u);
    EXPECT_TRUE(process.is_compute || process.is_graphics);
  }
}

void expect_possible(const DeviceHealth& health) {
  if (health.bar1) expect_possible(*health.bar1);
  for (const MigInstance& part : health.mig_instances) expect_possible(part.memory);
  EXPECT_LE(health.mig_instances.size(), 64u);
  EXPECT_LE(health.memory_celsius.value_or(0), 250u);
  const RetiredPages pages = health.retired_pages.value_or(RetiredPages{});
  EXPECT_LE(pages.corrected.value_or(0), 1u << 20U);
  EXPECT_LE(pages.uncorrected.value_or(0), 1u << 20U);
}

class NvmlChaosTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Generations, NvmlChaosTest, ::testing::Values("1", "2", "535", "3"));

TEST_P(NvmlChaosTest, WhatIsToldCanBe) {
  const Scenario scenario(kMachine);
  size_t with_memory = 0;
  size_t with_trouble = 0;
  size_t with_traffic = 0;
  for (int seed = 1; seed <= 2000; ++seed) {
    const Environment chaos("FAKE_NVML_CHAOS", std::to_string(seed));
    const auto nvml = Nvml::open(fake_nvml(GetParam()));
    if (!nvml) continue;
    EXPECT_LE(nvml->device_count().value_or(0), 1024u);
    for (const uint32_t index : {0u, 1u, 0u, 1u, 7u, 0u, 0u}) {
      const DeviceSample sample = nvml->sample(index);
      expect_possible(sample);
      with_memory += sample.memory.used_bytes ? 1 : 0;
      with_trouble += sample.trouble ? 1 : 0;
      with_traffic += sample.pcie_sent_bytes_per_second ? 1 : 0;
      expect_possible(nvml->health(index));
      const DeviceIdentity identity = nvml->identity(index);
      EXPECT_LE(identity.name.value_or("").size(), kTextBytes);
      EXPECT_LE(identity.compute_capability.value_or("").size(), 5u);
    }
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(with_memory, 1000u);  // else nothing was put to the test
  EXPECT_GT(with_trouble, 1000u);
  if (GetParam() == "535" || GetParam() == "3") {
    EXPECT_GT(with_traffic, 100u);
  }
}

TEST_P(NvmlChaosTest, EventsToo) {
  const Scenario scenario(kMachine);
  for (int seed = 1; seed <= 200; ++seed) {
    const Environment chaos("FAKE_NVML_CHAOS", std::to_string(seed));
    auto events = NvmlEvents::open(fake_nvml(GetParam()));
    if (!events) continue;
    EXPECT_LE(events->watched().size(), 2u);
    for (int time = 0; time < 5; ++time) (void)events->wait(std::chrono::milliseconds(0));
  }
}

}  // namespace
}  // namespace vram::gpu::nvml
