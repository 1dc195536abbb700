// Drm on the trees of several kernels (tests/data/drm); what is expected was worked out by hand.
#include "gpu/drm/drm.hpp"

#include "base/bytes.hpp"
#include "base/testing/paths.hpp"
#include "base/time.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vram::gpu::drm {
namespace {

using testing::SizeIs;

std::string tree_file(const std::string& name) { return data_path("drm/") + name + ".tree"; }

// Everything of a sample but that it is asleep.
void expect_nothing_known(const DeviceSample& sample) {
  EXPECT_FALSE(sample.memory.total_bytes || sample.memory.used_bytes || sample.memory.free_bytes);
  EXPECT_FALSE(sample.host_memory.total_bytes || sample.busy_percent || sample.celsius);
  EXPECT_FALSE(sample.milliwatts || sample.core_mhz || sample.memory_mhz || sample.processes);
}

TEST(DrmTest, Amdgpu515WithItsOwnFormOfFdinfo) {
  const RecordedTree tree(tree_file("amdgpu_5.15"));
  const Drm drm = Drm::open(tree.roots());
  ASSERT_EQ(drm.device_count(), 1u);
  const DeviceIdentity identity = drm.identity(0);
  EXPECT_EQ(identity.vendor, Vendor::kAmd);
  EXPECT_EQ(identity.pci_id, "0000:0b:00.0");
  EXPECT_EQ(identity.name, "AMD GPU 1002:73bf");
  EXPECT_EQ(identity.uuid, "7c3e6ab9112a0f55");
  EXPECT_EQ(identity.driver, "5.15.0-91-generic");
  EXPECT_EQ(identity.power_limit_milliwatts, 255'000u);
  EXPECT_EQ(identity.numa_node, std::nullopt);  // -1
  const DeviceHealth health = drm.health(0);
  EXPECT_EQ(health.bar1.value().total_bytes, 256 * kMiB);
  EXPECT_EQ(health.bar1.value().used_bytes, 128 * kMiB);
  EXPECT_EQ(health.memory_celsius, 58u);
  EXPECT_EQ(health.ecc_since_boot.corrected, std::nullopt);

  const DeviceSample sample = drm.sample(0);
  EXPECT_EQ(sample.memory.total_bytes, 17'163'091'968u);
  EXPECT_EQ(sample.memory.used_bytes, 1536 * kMiB);
  EXPECT_EQ(sample.memory.free_bytes, 15'552'479'232u);
  EXPECT_EQ(sample.host_memory.used_bytes, 100 * kMiB);
  EXPECT_EQ(sample.busy_percent, 23u);
  EXPECT_EQ(sample.memory_busy_percent, 7u);
  EXPECT_EQ(sample.celsius, 47u);
  EXPECT_EQ(sample.milliwatts, 38'000u);
  EXPECT_EQ(sample.core_mhz, 2304u);
  EXPECT_EQ(sample.memory_mhz, 1000u);
  const auto& processes = sample.processes.value();
  ASSERT_THAT(processes, SizeIs(2));
  EXPECT_EQ(processes[0].pid, 2101u);
  EXPECT_EQ(processes[0].used_bytes, 250 * kMiB);  // 200 + 50, the first client once
  EXPECT_EQ(processes[0].host_bytes, 30 * kMiB);
  EXPECT_TRUE(processes[0].is_graphics && !processes[0].is_compute);
  EXPECT_EQ(processes[0].busy_ns, std::nullopt);
  EXPECT_EQ(processes[1].pid, 2102u);
  EXPECT_EQ(processes[1].used_bytes, 4 * kMiB);  // the first client is the older process's
  EXPECT_EQ(processes[1].host_bytes, 1 * kMiB);
  EXPECT_TRUE(processes[1].is_compute && !processes[1].is_graphics);
}

TEST(DrmTest, Amdgpu68WithKfdTheLargerFigureWins) {
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  const Drm drm = Drm::open(tree.roots());
  ASSERT_EQ(drm.device_count(), 2u);
  EXPECT_EQ(drm.identity(0).pci_id, "0000:43:00.0");
  EXPECT_EQ(drm.identity(0).name, "Instinct MI210");
  EXPECT_EQ(drm.identity(0).driver, "6.7.0");
  EXPECT_EQ(drm.identity(0).numa_node, 1u);
  EXPECT_EQ(drm.identity(1).name, "AMD GPU 1002:740f");
  EXPECT_EQ(drm.health(0).ecc_since_boot.corrected, 17u);
  EXPECT_EQ(drm.health(0).ecc_since_boot.uncorrected, 2u);
  EXPECT_EQ(drm.health(0).memory_celsius, 64u);

  const DeviceSample first = drm.sample(0);
  EXPECT_EQ(first.celsius, 61u);  // no temp1
  EXPECT_EQ(first.milliwatts, 287'000u);
  EXPECT_EQ(first.memory_busy_percent, 41u);
  ASSERT_THAT(first.processes.value(), SizeIs(2));
  const DeviceProcess& training = first.processes.value()[0];
  EXPECT_EQ(training.pid, 5100u);
  EXPECT_EQ(training.used_bytes, 48 * kGiB);  // KFD's; fdinfo has 40
  EXPECT_EQ(training.host_bytes, 2 * kGiB);
  EXPECT_EQ(training.busy_ns, 70 * kSecondNs);  // compute; dma had 5
  EXPECT_TRUE(training.is_compute);
  const DeviceProcess& other = first.processes.value()[1];
  EXPECT_EQ(other.pid, 5200u);
  EXPECT_EQ(other.used_bytes, 3 * kGiB);
  EXPECT_EQ(other.host_bytes, std::nullopt);
  EXPECT_EQ(other.busy_ns, std::nullopt);

  const DeviceSample second = drm.sample(1);
  EXPECT_EQ(second.busy_percent, 0u);
  EXPECT_EQ(second.celsius, std::nullopt);
  ASSERT_THAT(second.processes.value(), SizeIs(1));
  EXPECT_EQ(second.processes.value()[0].used_bytes, 2'202'009 * kKiB);  // KFD has 2,097,152
}

TEST(DrmTest, ArcOnI915LeavesNvidiasCardAlone) {
  const RecordedTree tree(tree_file("i915_6.2_arc"));
  const Drm drm = Drm::open(tree.roots());
  ASSERT_EQ(drm.device_count(), 1u);
  EXPECT_EQ(drm.identity(0).vendor, Vendor::kIntel);
  EXPECT_EQ(drm.identity(0).name, "Intel GPU 8086:56a0");
  EXPECT_EQ(drm.identity(0).power_limit_milliwatts, 190'000u);
  const DeviceSample sample = drm.sample(0);
  EXPECT_EQ(sample.memory.total_bytes, 17'070'817'280u);
  EXPECT_EQ(sample.memory.free_bytes, 12'775'849'984u);
  EXPECT_EQ(sample.memory.used_bytes, 4 * kGiB);
  EXPECT_EQ(sample.core_mhz, 2050u);
  EXPECT_EQ(sample.busy_percent, std::nullopt);
  EXPECT_EQ(sample.milliwatts, std::nullopt);  // power is between two samples
  ASSERT_THAT(sample.processes.value(), SizeIs(1));
  const DeviceProcess& process = sample.processes.value()[0];
  EXPECT_EQ(process.pid, 3300u);
  EXPECT_EQ(process.used_bytes, std::nullopt);
  EXPECT_EQ(process.busy_ns, 1'500'000'000u);  // render, and each of two video engines
  EXPECT_TRUE(process.is_graphics && process.is_compute);
  tree.write("sys/class/drm/card0/device/hwmon/hwmon3/energy1_input", "123456790\n");
  EXPECT_TRUE(drm.sample(0).milliwatts.has_value());
}

TEST(DrmTest, XeCountsCyclesAndResidentMemory) {
  const RecordedTree tree(tree_file("xe_6.11"));
  const Drm drm = Drm::open(tree.roots());
  ASSERT_EQ(drm.device_count(), 1u);
  const DeviceSample sample = drm.sample(0);
  EXPECT_EQ(sample.memory.total_bytes, 12 * kGiB);
  EXPECT_EQ(sample.memory.used_bytes, std::nullopt);
  EXPECT_EQ(sample.memory.free_bytes, std::nullopt);
  EXPECT_EQ(sample.core_mhz, 2850u);
  EXPECT_EQ(sample.celsius, 56u);
  EXPECT_EQ(drm.health(0).memory_celsius, 68u);
  ASSERT_THAT(sample.processes.value(), SizeIs(1));
  EXPECT_EQ(sample.processes.value()[0].used_bytes, (6144 + 512) * kMiB);
  EXPECT_EQ(sample.processes.value()[0].host_bytes, 2 * kMiB + 4 * kKiB);
  EXPECT_TRUE(sample.processes.value()[0].is_compute);
  EXPECT_EQ(sample.processes.value()[0].busy_percent, std::nullopt);

  // A quarter of the four ccs engines' time, and a tenth of rcs's.
  tree.write("proc/6001/fdinfo/5",
             "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\n"
             "drm-cycles-rcs:\t11000000\ndrm-total-cycles-rcs:\t1100000000\n"
             "drm-cycles-ccs:\t500000000\ndrm-total-cycles-ccs:\t1100000000\n"
             "drm-engine-capacity-ccs:\t4\n");
  EXPECT_EQ(drm.sample(0).processes.value()[0].busy_percent, 25u);
}

TEST(DrmTest, TheControlGroupsKnowTheMemoryThatADriverHides) {
  const RecordedTree tree(tree_file("xe_6.11"));
  tree.remove("sys/class/drm/card1/device/tile0/physical_vram_size_bytes");
  tree.write("sys/fs/cgroup/dmem.capacity",
             "drm/0000:0a:00.0/vram0 1\ndrm/0000:03:00.0/vram0 12850298880\n"
             "drm/0000:03:00.0/stolen 134217728\n");
  EXPECT_EQ(Drm::open(tree.roots()).sample(0).memory.total_bytes, 12'850'298'880u);
}

TEST(DrmTest, AnApuShowsBothMemoriesAndTheSleepingCardIsLeftAlone) {
  const RecordedTree tree(tree_file("apu_6.12"));
  const Drm drm = Drm::open(tree.roots());
  ASSERT_EQ(drm.device_count(), 2u);
  const uint64_t before = drm.files_opened();
  const DeviceSample sleeping = drm.sample(0);
  EXPECT_EQ(drm.files_opened() - before, 1u);  // its runtime_status
  EXPECT_TRUE(sleeping.is_asleep);
  expect_nothing_known(sleeping);
  EXPECT_FALSE(drm.health(0).bar1.has_value());
  const DeviceIdentity identity = drm.identity(0);
  EXPECT_EQ(identity.pci_id, "0000:03:00.0");
  EXPECT_EQ(identity.name, "AMD GPU 1002:7480");
  EXPECT_EQ(identity.driver, std::nullopt);
  EXPECT_EQ(drm.files_opened() - before, 3u);  // once for each question

  const DeviceSample sample = drm.sample(1);
  EXPECT_FALSE(sample.is_asleep);
  EXPECT_EQ(sample.memory.total_bytes, 512 * kMiB);
  EXPECT_EQ(sample.host_memory.total_bytes, 30 * kGiB);
  EXPECT_EQ(sample.host_memory.used_bytes, 13 * kGiB);
  EXPECT_EQ(sample.core_mhz, 1100u);
  EXPECT_EQ(sample.milliwatts, 28'122u);
  ASSERT_THAT(sample.processes.value(), SizeIs(1));
  EXPECT_EQ(sample.processes.value()[0].used_bytes, 256 * kMiB);
  EXPECT_EQ(sample.processes.value()[0].host_bytes, 12 * kGiB);
  EXPECT_EQ(sample.processes.value()[0].busy_ns, 880 * kSecondNs);

  tree.write("sys/class/drm/card0/device/power/runtime_status", "active\n");
  EXPECT_EQ(drm.sample(0).memory.total_bytes, 8'573'157'376u);
  ASSERT_THAT(drm.sample(0).processes.value(), SizeIs(1));
  EXPECT_EQ(drm.sample(0).processes.value()[0].used_bytes, 1 * kMiB);
}

void add_card(const RecordedTree& tree, const std::string& name, const std::string& pci_id) {
  const std::string folder = "sys/class/drm/" + name + "/device/";
  tree.write(folder + "uevent", "DRIVER=amdgpu\nPCI_ID=1002:744C\nPCI_SLOT_NAME=" + pci_id + "\n");
  tree.write(folder + "mem_info_vram_total", "1000000\n");
}

// Loaded after us, a driver has cards; plugged in, a dock has one more.
TEST(DrmTest, CardsThatComeLateAreFound) {
  const RecordedTree tree;
  const Drm drm = Drm::open(tree.roots());
  EXPECT_EQ(drm.device_count(), 0u);
  add_card(tree, "card1", "0000:0b:00.0");
  EXPECT_EQ(drm.device_count(), 1u);
  EXPECT_EQ(drm.sample(0).memory.total_bytes, 1'000'000u);
  add_card(tree, "card0", "0000:03:00.0");
  for (int round = 0; round < 8; ++round) (void)drm.device_count();
  ASSERT_EQ(drm.device_count(), 2u);
  EXPECT_EQ(drm.identity(0).pci_id, "0000:03:00.0");
  EXPECT_EQ(drm.identity(1).pci_id, "0000:0b:00.0");
  EXPECT_EQ(drm.sample(1).memory.total_bytes, 1'000'000u);

  tree.remove("sys/class/drm/card0");
  add_card(tree, "card2", "0000:0c:00.0");
  for (int round = 0; round < 8; ++round) (void)drm.device_count();
  ASSERT_EQ(drm.device_count(), 3u);
  EXPECT_TRUE(drm.sample(0).trouble) << "gone, and not forgotten";
  EXPECT_FALSE(drm.sample(2).trouble);
}

// How many files a second sample of the second device opens.
uint64_t opened_by_sample(const RecordedTree& tree) {
  const Drm drm = Drm::open(tree.roots());
  (void)drm.sample(1);
  const uint64_t before = drm.files_opened();
  (void)drm.sample(1);
  return drm.files_opened() - before;
}

TEST(DrmTest, ClientsOfASleepingCardAreNotRead) {
  const RecordedTree with_client(tree_file("apu_6.12"));
  const RecordedTree without(tree_file("apu_6.12"));
  without.remove("proc/777/fd/9");
  EXPECT_EQ(opened_by_sample(with_client), opened_by_sample(without));
  with_client.write("sys/class/drm/card0/device/power/runtime_status", "active\n");
  EXPECT_EQ(opened_by_sample(with_client), opened_by_sample(without) + 1);
}

TEST(DrmTest, AMachineWithoutAnything) {
  const RecordedTree tree;
  const Drm drm = Drm::open(tree.roots());
  EXPECT_EQ(drm.device_count(), 0u);
  EXPECT_EQ(drm.sample(0).trouble, "no device 0: there are 0");
  EXPECT_EQ(drm.identity(3).index, 3u);
  EXPECT_EQ(Drm::open({"/nowhere", "/nowhere"}).device_count(), 0u);
}

TEST(DrmTest, ADeviceThatIsGoneSaysSo) {
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  const Drm drm = Drm::open(tree.roots());
  tree.remove("sys/class/drm/card2");
  const DeviceSample gone = drm.sample(0);
  EXPECT_EQ(gone.trouble,
            "amdgpu no longer has 0000:43:00.0: the driver released it, or it is lost");
  expect_nothing_known(gone);
  EXPECT_FALSE(drm.sample(1).trouble.has_value());
}

TEST(DrmTest, FiguresAboveTheDevicesAreUnknown) {
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  tree.write("sys/class/kfd/kfd/proc/5200/vram_51138", "68702699521\n");
  tree.write("sys/class/drm/card2/device/mem_info_vram_used", "68702699521\n");
  tree.write("sys/class/drm/card2/device/gpu_busy_percent", "101\n");
  const DeviceSample sample = Drm::open(tree.roots()).sample(0);
  EXPECT_EQ(sample.memory.used_bytes, std::nullopt);
  EXPECT_EQ(sample.memory.free_bytes, std::nullopt);
  EXPECT_EQ(sample.busy_percent, std::nullopt);
  EXPECT_EQ(sample.processes.value().at(1).pid, 5200u);
  EXPECT_EQ(sample.processes.value().at(1).used_bytes, std::nullopt);
}

}  // namespace
}  // namespace vram::gpu::drm
