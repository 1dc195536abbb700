// Drm on AMD's GPUs as real machines printed them. Expected is what the recorded text says, in
// bytes.
#include "base/bytes.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace vram::gpu::drm {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(RecordedGpusTest, Vega64) {
  const Recorded machine("amdgpu_vega64");
  ASSERT_EQ(machine.devices(), 2u);  // by address: the i915 card is first
  const DeviceIdentity identity = machine.drm().identity(1);
  EXPECT_EQ(identity.vendor, Vendor::kAmd);
  EXPECT_EQ(identity.pci_id, "0000:09:00.0");
  EXPECT_EQ(identity.name, "AMD GPU 1002:687f");  // its product_name is an empty line
  EXPECT_EQ(identity.uuid, "0123456789abcdef");
  EXPECT_EQ(identity.numa_node, std::nullopt);
  EXPECT_EQ(identity.power_limit_milliwatts, std::nullopt);
  const DeviceSample sample = machine.sample(1);
  EXPECT_EQ(sample.memory.total_bytes, 8'573'157'376u);
  EXPECT_EQ(sample.memory.used_bytes, 1'490'378'752u);
  EXPECT_EQ(sample.memory.free_bytes, 7'082'778'624u);
  EXPECT_EQ(sample.host_memory.total_bytes, 8'573'157'376u);
  EXPECT_EQ(sample.host_memory.used_bytes, 144'560'128u);
  EXPECT_EQ(sample.host_memory.free_bytes, 8'428'597'248u);
  EXPECT_EQ(sample.busy_percent, 4u);
  EXPECT_EQ(sample.memory_busy_percent, std::nullopt);
  EXPECT_EQ(sample.core_mhz, 852u);
  EXPECT_EQ(sample.memory_mhz, 167u);
  EXPECT_FALSE(sample.celsius || sample.milliwatts || sample.is_asleep);
  EXPECT_THAT(sample.processes.value(), IsEmpty());
  const DeviceHealth health = machine.drm().health(1);
  EXPECT_EQ(health.bar1.value().used_bytes, 1'490'378'752u);
  EXPECT_EQ(health.ecc_since_boot.corrected, std::nullopt);

  EXPECT_EQ(machine.drm().identity(0).name, "Intel GPU 8086:5917");
  expect_memory_unknown(machine.sample(0));
}

// The line of a clock that sleeps deeply, as the kernel's document of pp_dpm_sclk has it.
TEST(RecordedGpusTest, AClockMaySleep) {
  const Recorded machine("amdgpu_vega64");
  machine.tree().write("sys/class/drm/card0/device/pp_dpm_sclk",
                       "S: 19Mhz *\n0: 615Mhz\n1: 800Mhz\n2: 888Mhz\n3: 1000Mhz\n");
  EXPECT_EQ(machine.sample(1).core_mhz, 19u);
}

TEST(RecordedGpusTest, AmdgpuStandardKeys) {
  const Recorded machine("amdgpu_standard_keys");
  const DeviceProcess process = machine.process();
  EXPECT_EQ(process.pid, 2217u);
  EXPECT_EQ(process.used_bytes, 2'117'632u);  // 2068 KiB
  EXPECT_EQ(process.host_bytes, 8'388'608u);
  EXPECT_EQ(process.busy_ns, 107'322'799u);
  EXPECT_TRUE(process.is_graphics && !process.is_compute);
  expect_memory_unknown(machine.sample());
}

// What amdgpu calls cpu is not reached by the device, and requested is no use.
TEST(RecordedGpusTest, AmdgpuVisibleKeys) {
  const DeviceProcess process = Recorded("amdgpu_visible_keys").process();
  EXPECT_EQ(process.pid, 3'766'769u);
  EXPECT_EQ(process.used_bytes, 77'824u);  // 76 KiB
  EXPECT_EQ(process.host_bytes, 45'056u);
  EXPECT_EQ(process.busy_ns, std::nullopt);
  EXPECT_FALSE(process.is_graphics || process.is_compute);
}

TEST(RecordedGpusTest, AmdgpuAllRegions) {
  const Recorded machine("amdgpu_all_regions");
  for (int tick = 0; tick < 3; ++tick) {
    const auto processes = machine.processes();
    ASSERT_THAT(processes, SizeIs(2));  // 1300 has 1204's client and no other
    EXPECT_EQ(processes[0].pid, 1204u);
    EXPECT_EQ(processes[0].used_bytes, 557'494'272u);  // 544428 KiB, once of two descriptors
    EXPECT_EQ(processes[0].host_bytes, 23'068'672u);
    EXPECT_EQ(processes[0].busy_ns, 39'456'116'802u);
    EXPECT_TRUE(processes[0].is_graphics && !processes[0].is_compute);
    EXPECT_EQ(processes[1].pid, 1239u);
    EXPECT_EQ(processes[1].used_bytes, 45'633'536u);
    EXPECT_EQ(processes[1].host_bytes, 2'449'408u);
    EXPECT_EQ(processes[1].busy_ns, 46'464'671u);
    EXPECT_TRUE(processes[1].is_compute && !processes[1].is_graphics);
  }
}

TEST(RecordedGpusTest, Radeon890mHasItsModelInTheHostsMemory) {
  const Recorded machine("amdgpu_6.18_radeon890m");
  const DeviceProcess process = machine.process();
  EXPECT_EQ(process.used_bytes, 5'476'352u);
  EXPECT_EQ(process.host_bytes, 25'864'192'000u);
  EXPECT_EQ(process.busy_ns, std::nullopt);
  EXPECT_EQ(machine.drm().identity(0).driver, "6.18.0");
}

// Where the carve-out is small, KFD counts memory of the host for the device.
TEST(RecordedGpusTest, WhatKfdCountsBeyondTheDeviceLeavesFdinfosFigure) {
  const Recorded machine("amdgpu_6.18_radeon890m");
  const RecordedTree& tree = machine.tree();
  const std::string node = "sys/class/kfd/kfd/topology/nodes/1/";
  tree.write(node + "gpu_id", "50000\n");
  tree.write(node + "properties", "location_id 50432\ndomain 0\n");  // c5:00.0
  tree.write("sys/class/kfd/kfd/proc/7700/vram_50000", "25864192000\n");
  tree.write("sys/class/drm/card1/device/mem_info_vram_total", "536870912\n");
  const auto found = Drm::open(tree.roots()).sample(0).processes.value();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].used_bytes, 5'476'352u);
  EXPECT_EQ(found[0].host_bytes, 25'864'192'000u);
  EXPECT_TRUE(found[0].is_compute);
}

TEST(RecordedGpusTest, Mi100HasAProcessThatKfdAloneTellsOf) {
  const Recorded machine("amdgpu_mi100_kfd");
  const DeviceProcess process = machine.process();
  EXPECT_EQ(machine.drm().identity(0).pci_id, "0000:23:00.0");  // location_id 8960
  EXPECT_EQ(process.pid, 4444u);
  EXPECT_EQ(process.used_bytes, 16 * kGiB);  // of gpu_id 42700
  EXPECT_EQ(process.host_bytes, std::nullopt);
  EXPECT_TRUE(process.is_compute);
}

// KFD's nodes of one card's parts: location_id 2560 is 0a:00.0, 2561 its second part, 41984
// a4:00.0.
TEST(RecordedGpusTest, Mi308xInPartsIsOneDeviceWithThemAll) {
  const Recorded machine("amdgpu_mi308x_cpx");
  ASSERT_EQ(machine.devices(), 2u);
  EXPECT_EQ(machine.drm().identity(0).pci_id, "0000:0a:00.0");
  EXPECT_EQ(machine.drm().identity(1).pci_id, "0000:a4:00.0");
  const auto processes = machine.processes(0);
  ASSERT_THAT(processes, SizeIs(2));
  EXPECT_EQ(processes[0].pid, 8000u);
  EXPECT_EQ(processes[0].used_bytes, 23 * kGiB);  // 20 and 3
  EXPECT_EQ(processes[1].pid, 8100u);
  EXPECT_EQ(processes[1].used_bytes, 5 * kGiB);
  EXPECT_EQ(processes[1].host_bytes, 2 * kMiB);  // by fdinfo of the part's own render node
  EXPECT_THAT(machine.processes(1), IsEmpty());
}

// As other kernels write it: the part's number in the highest four bits.
TEST(RecordedGpusTest, APartsNumberMayAlsoStandInTheHighestBits) {
  const Recorded machine("amdgpu_mi308x_cpx");
  machine.tree().write("sys/class/kfd/kfd/topology/nodes/3/properties",
                       "location_id 268438016\ndomain 0\ndrm_render_minor 129\n");  // 0x10000a00
  const auto found = Drm::open(machine.tree().roots()).sample(0).processes.value();
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].used_bytes, 23 * kGiB);
  EXPECT_EQ(found[1].used_bytes, 5 * kGiB);
}

TEST(RecordedGpusTest, ALaptopsSleepingCardIsNotAsked) {
  const Recorded machine("amdgpu_laptop_asleep");
  ASSERT_EQ(machine.devices(), 1u);
  const uint64_t before = machine.drm().files_opened();
  const DeviceSample sample = machine.sample();
  EXPECT_EQ(machine.drm().files_opened() - before, 1u);
  EXPECT_TRUE(sample.is_asleep);
  expect_memory_unknown(sample);
  EXPECT_FALSE(sample.busy_percent || sample.celsius || sample.processes);
}

}  // namespace

// Drm on Intel's GPUs, and on others that it leaves alone, as real machines printed them. Expected
// is what the recorded text says, in bytes.

namespace {

TEST(RecordedGpusTest, I915Integrated) {
  const DeviceProcess process = Recorded("i915_integrated").process();
  EXPECT_EQ(process.used_bytes, std::nullopt);  // it has no memory of its own
  EXPECT_EQ(process.host_bytes, 6'189'056u);    // 6044 KiB
  EXPECT_EQ(process.busy_ns, 346'249u);
  EXPECT_TRUE(process.is_graphics && !process.is_compute);
}

// Resident, not total; stolen memory belongs to the driver.
TEST(RecordedGpusTest, I915ArcA310) {
  const DeviceProcess process = Recorded("i915_arc_a310").process();
  EXPECT_EQ(process.used_bytes, 12'288u);   // 12 of 35916 KiB
  EXPECT_EQ(process.host_bytes, 532'480u);  // 520 of 8012 KiB
  EXPECT_EQ(process.busy_ns, 51'781'489'656u);
  EXPECT_TRUE(process.is_graphics && process.is_compute);
}

TEST(RecordedGpusTest, I915ArcA310WithAModel) {
  const Recorded machine("i915_6.8_arc_a310_model");
  const DeviceProcess process = machine.process();
  EXPECT_EQ(process.used_bytes, 2'762'895'360u);  // 2698140 KiB
  EXPECT_EQ(process.host_bytes, std::nullopt);
  EXPECT_EQ(process.busy_ns, 52'044'119'560u);
  EXPECT_TRUE(process.is_graphics && !process.is_compute);
  EXPECT_EQ(machine.drm().identity(0).power_limit_milliwatts, std::nullopt);  // switched off
}

TEST(RecordedGpusTest, XeDg2) {
  const Recorded machine("xe_dg2");
  const DeviceProcess process = machine.process();
  EXPECT_EQ(process.used_bytes, 24'567'808u);  // 23992 KiB
  EXPECT_EQ(process.host_bytes, 196'608u);     // 192 KiB and nothing of system
  EXPECT_EQ(process.busy_ns, std::nullopt);
  EXPECT_EQ(process.busy_percent, std::nullopt);  // cycles become a share between two samples
  EXPECT_TRUE(process.is_graphics && !process.is_compute);
  expect_memory_unknown(machine.sample());
}

TEST(RecordedGpusTest, XeTwoTiles) {
  const Recorded machine("xe_two_tiles");
  const DeviceProcess process = machine.process();
  EXPECT_EQ(process.used_bytes, 131'917'946'880u);  // 65072580 and 63753540 KiB
  EXPECT_EQ(process.host_bytes, 270'336u);
  EXPECT_TRUE(process.is_compute && !process.is_graphics);
  EXPECT_EQ(machine.sample().memory.total_bytes, 128 * kGiB);
  EXPECT_EQ(machine.sample().memory.used_bytes, std::nullopt);
}

TEST(RecordedGpusTest, BattlemageHasItsPowerAsEnergy) {
  const Recorded machine("xe_7.0_battlemage_g31");
  ASSERT_EQ(machine.devices(), 1u);
  EXPECT_EQ(machine.drm().identity(0).name, "Intel GPU 8086:e223");
  EXPECT_EQ(machine.drm().identity(0).driver, "7.0.0-31-generic");
  EXPECT_EQ(machine.drm().identity(0).power_limit_milliwatts, 275'000u);
  EXPECT_EQ(machine.sample().milliwatts, std::nullopt);
  machine.tree().write("sys/class/drm/card0/device/hwmon/hwmon7/energy1_input", "1000000001\n");
  EXPECT_TRUE(machine.sample().milliwatts.has_value());
  EXPECT_EQ(machine.sample().celsius, std::nullopt);
}

// A counter of the card that stays at 0 is no figure; the package's counter increases.
TEST(RecordedGpusTest, ArcB580) {
  const Recorded machine("xe_6.18_arc_b580");
  ASSERT_EQ(machine.devices(), 1u);
  const DeviceSample first = machine.sample();
  EXPECT_EQ(first.celsius, 60u);
  EXPECT_EQ(first.milliwatts, std::nullopt);
  EXPECT_EQ(first.core_mhz, std::nullopt);  // of gt1, for media, alone
  EXPECT_EQ(machine.drm().health(0).memory_celsius, 60u);
  EXPECT_EQ(machine.drm().identity(0).power_limit_milliwatts, std::nullopt);
  machine.tree().write("sys/class/drm/card0/device/hwmon/hwmon5/energy2_input", "70100000\n");
  EXPECT_GT(machine.sample().milliwatts.value_or(0), 0u);
}

TEST(RecordedGpusTest, DriversThatAreNotReadAreLeftAlone) {
  EXPECT_EQ(Recorded("panfrost").devices(), 0u);
  const Recorded npu("amdxdna_npu");
  ASSERT_EQ(npu.devices(), 1u);
  EXPECT_THAT(npu.processes(), testing::IsEmpty());
}

}  // namespace
}  // namespace vram::gpu::drm
