// Drm on Intel's GPUs, and on others that it leaves alone, as real machines printed them. Expected
// is what the recorded text says, in bytes.
#include "base/bytes.hpp"
#include "gpu/testing/recorded_machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace vram::gpu::drm {
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
  EXPECT_EQ(process.busy_percent, std::nullopt);  // cycles are a share between two looks
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

// A counter of the card that stays at 0 says nothing; the package's goes on.
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
