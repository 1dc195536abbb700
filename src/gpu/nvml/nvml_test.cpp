// Nvml against the fake library of each generation (tests/fake_nvml).
#include "gpu/nvml/nvml.hpp"

#include "base/bytes.hpp"
#include "gpu/testing/fake_libraries.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace vram::gpu::nvml {
namespace {

using gpu::testing::Environment;
using gpu::testing::fake_nvml;

class NvmlTest : public ::testing::TestWithParam<std::string> {
 protected:
  static Nvml open() { return Nvml::open(fake_nvml(GetParam())).value(); }
  static bool has_newer_structs() { return GetParam() != "1"; }
};
INSTANTIATE_TEST_SUITE_P(Generations, NvmlTest, ::testing::Values("1", "2", "535", "3"));

TEST_P(NvmlTest, MemoryAddsUpInEachGeneration) {
  const Nvml nvml = open();
  EXPECT_EQ(nvml.device_count().value(), 2u);
  for (const uint32_t index : {0u, 1u}) {
    const DeviceSample sample = nvml.sample(index);
    EXPECT_EQ(nvml.identity(index).name, "Fake GPU " + std::to_string(index));
    EXPECT_EQ(nvml.identity(index).uuid, "GPU-" + std::to_string(index));
    EXPECT_EQ(sample.memory.total_bytes, 1000 * kMiB);
    EXPECT_EQ(sample.memory.free_bytes, 650 * kMiB);
    EXPECT_EQ(sample.memory.used_bytes, (has_newer_structs() ? 300 : 350) * kMiB);
    EXPECT_EQ(sample.memory.reserved_bytes,
              has_newer_structs() ? std::optional(50 * kMiB) : std::nullopt);
    EXPECT_EQ(sample.memory_busy_percent, 12u);
    EXPECT_FALSE(sample.trouble.has_value());
  }
  EXPECT_EQ(nvml.sample(0).busy_percent, 37u);
  EXPECT_EQ(nvml.sample(1).busy_percent, std::nullopt);  // 400 %
}

TEST_P(NvmlTest, ProcessesAreMergedAndTheImpossibleIsUnknown) {
  const Nvml nvml = open();
  const auto processes = nvml.sample(0).processes.value();
  const bool has_instances = has_newer_structs();
  ASSERT_EQ(processes.size(), has_instances ? 5u : 4u);
  EXPECT_EQ(processes[0].pid, 77u);
  EXPECT_EQ(processes[0].used_bytes, std::nullopt);
  EXPECT_TRUE(processes[0].is_graphics && !processes[0].is_compute);
  EXPECT_EQ(processes[1].pid, 101u);
  EXPECT_EQ(processes[1].used_bytes, 200 * kMiB);
  EXPECT_TRUE(processes[1].is_graphics && processes[1].is_compute);
  EXPECT_EQ(processes[2].pid, 102u);
  EXPECT_EQ(processes[2].used_bytes, std::nullopt);
  EXPECT_EQ(processes[3].pid, 103u);
  if (has_instances) {
    EXPECT_EQ(processes[3].used_bytes, 10 * kMiB);
    EXPECT_EQ(processes[4].used_bytes, 20 * kMiB);
    EXPECT_EQ(processes[4].gpu_instance, 2u);
  }
  EXPECT_TRUE(nvml.sample(1).processes.value().empty());
}

TEST_P(NvmlTest, ManyProcessesAreAskedForAgainWithMoreRoom) {
  const Environment more("FAKE_NVML_PROCESSES", "500");
  EXPECT_EQ(open().sample(0).processes.value().size(), has_newer_structs() ? 505u : 504u);
}

TEST_P(NvmlTest, WhatFailsTakesOnlyItselfAway) {
  const Nvml nvml = open();
  const Environment broken("FAKE_NVML_FAIL",
                           "nvmlDeviceGetName=999 nvmlDeviceGetUtilizationRates=3 second=15");
  const DeviceSample sample = nvml.sample(0);
  EXPECT_EQ(nvml.identity(0).name, std::nullopt);
  EXPECT_EQ(nvml.identity(0).uuid, "GPU-0");
  EXPECT_EQ(sample.busy_percent, std::nullopt);
  EXPECT_TRUE(sample.memory.used_bytes.has_value());
  const DeviceSample lost = nvml.sample(1);
  EXPECT_EQ(lost.trouble, "GPU is lost (15)");
  EXPECT_EQ(lost.memory.total_bytes, std::nullopt);
  EXPECT_EQ(lost.processes, std::nullopt);
}

// WSL answers a figure that it does not have like this.
TEST_P(NvmlTest, AFigureThatIsAnsweredWithUnknownErrorIsNoLostGpu) {
  const Nvml nvml = open();
  const Environment broken("FAKE_NVML_FAIL", "nvmlDeviceGetUtilizationRates=999");
  const DeviceSample sample = nvml.sample(0);
  EXPECT_EQ(sample.trouble, std::nullopt);
  EXPECT_EQ(sample.busy_percent, std::nullopt);
  EXPECT_TRUE(sample.memory.used_bytes.has_value());
  EXPECT_TRUE(sample.processes.has_value());
  const Environment lost("FAKE_NVML_FAIL", "nvmlDeviceGetUtilizationRates=15");
  EXPECT_EQ(nvml.sample(0).trouble, "GPU is lost (15)");
}

TEST_P(NvmlTest, NoPermissionIsUnknownNotZero) {
  const Nvml nvml = open();
  std::string all;
  for (const char* what : {"MemoryInfo", "ComputeRunningProcesses", "GraphicsRunningProcesses"}) {
    for (const char* version : {"", "_v2", "_v3"})
      all += fmt::format("nvmlDeviceGet{}{}=4 ", what, version);
  }
  const Environment broken("FAKE_NVML_FAIL", all);
  const DeviceSample sample = nvml.sample(0);
  EXPECT_EQ(sample.memory.total_bytes, std::nullopt);
  EXPECT_EQ(sample.memory.free_bytes, std::nullopt);
  EXPECT_EQ(sample.processes, std::nullopt);
}

TEST(Nvml, FallsBackToOlderStructs) {
  const Nvml nvml = Nvml::open(fake_nvml("3")).value();
  const Environment broken("FAKE_NVML_FAIL",
                           "nvmlDeviceGetMemoryInfo_v2=25 "
                           "nvmlDeviceGetComputeRunningProcesses_v3=13 "
                           "nvmlDeviceGetComputeRunningProcesses_v2=13");
  const DeviceSample sample = nvml.sample(0);
  EXPECT_EQ(sample.memory.used_bytes, 350 * kMiB);
  EXPECT_EQ(sample.memory.reserved_bytes, std::nullopt);
  EXPECT_EQ(sample.processes.value().size(), 4u);
}

TEST(Nvml, SaysWhyItDoesNotOpen) {
  const auto missing = Nvml::open("/nowhere/libnvidia-ml.so.1");
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_THAT(missing.error().message, ::testing::HasSubstr("/nowhere/libnvidia-ml.so.1"));
  EXPECT_EQ(Nvml::open("libc.so.6").error().code, Code::kUnsupported);
  const Environment broken("FAKE_NVML_FAIL", "nvmlInit_v2=18");
  EXPECT_THAT(Nvml::open(fake_nvml("3")).error().message, ::testing::HasSubstr("reboot"));
}

TEST(Nvml, LetsGoOfTheDriverAndTakesItAgain) {
  const NvmlApi api = NvmlApi::load(fake_nvml("2")).value();
  unsigned count = 0;
  for (int time = 0; time < 3; ++time) {
    {
      Nvml first = Nvml::open(fake_nvml("2")).value();
      const Nvml moved = std::move(first);
      const Nvml second = Nvml::open(fake_nvml("2")).value();
      EXPECT_TRUE(moved.sample(0).memory.used_bytes.has_value());
      EXPECT_EQ(api.device_get_count(&count), kSuccess);
    }
    EXPECT_EQ(api.device_get_count(&count), kUninitialized);
  }
}

TEST(Nvml, ADeviceThatHangsHoldsUpNoOther) {
  const gpu::testing::Scenario scenario(
      "device 0\ntotal 1000M\nhang nvmlDeviceGetMemoryInfo_v2 1000\ndevice 1\ntotal 2000M\n");
  const Nvml nvml = Nvml::open(fake_nvml("3")).value();
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<bool> has_answered{false};
  std::thread hanging([&] {
    EXPECT_EQ(nvml.sample(0).memory.total_bytes, 1000 * kMiB);
    has_answered = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (int tick = 0; tick < 5; ++tick) EXPECT_EQ(nvml.sample(1).memory.total_bytes, 2000 * kMiB);
  EXPECT_FALSE(has_answered) << "the other device waited for the one that hangs";
  hanging.join();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1000));
}

TEST(Nvml, ThreadsAskAtTheSameTime) {
  const Nvml nvml = Nvml::open(fake_nvml("3")).value();
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < 4; ++number) {
    threads.emplace_back([&nvml, number] {
      for (int tick = 0; tick < 50; ++tick) {
        EXPECT_EQ(nvml.sample(number % 2).memory.used_bytes, 300 * kMiB);
        EXPECT_TRUE(nvml.identity(number % 2).name.has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace vram::gpu::nvml
