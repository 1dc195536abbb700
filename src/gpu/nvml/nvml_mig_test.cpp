// Devices that MIG has cut into parts, as Nvml tells them.
#include "base/bytes.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/testing/fake_nvml.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace vram::gpu::nvml {
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
