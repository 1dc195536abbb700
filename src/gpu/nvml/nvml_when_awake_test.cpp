// NvmlWhenAwake: what sleeps is not asked for anything. Against the fake library, which writes down
// what is called, and trees of a bus made here.
#include "gpu/nvml/nvml_when_awake.hpp"

#include "base/bytes.hpp"
#include "gpu/testing/fake_libraries.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vram::gpu::nvml {
namespace {

using gpu::testing::Calls;
using gpu::testing::fake_nvml;
using gpu::testing::Scenario;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFirst = "0000:19:00.0";
constexpr const char* kSecond = "0000:3b:00.0";
constexpr const char* kBoth =
    "device 0\nname One\nuuid GPU-1\npci 0 0x19 0\ntotal 100M\nused 10M\n"
    "device 1\nname Two\nuuid GPU-2\npci 0 0x3b 0\ntotal 100M\nused 20M\n";

class NvmlWhenAwakeTest : public ::testing::Test {
 protected:
  void add(const std::string& address, const std::string& status, const std::string& maker = "10de",
           const std::string& kind = "030000", const std::string& driver = "nvidia") const {
    const std::string folder = "sys/bus/pci/devices/" + address;
    tree_.write(folder + "/vendor", "0x" + maker + "\n");
    tree_.write(folder + "/class", "0x" + kind + "\n");
    tree_.write(folder + "/device", "0x28e0\n");
    tree_.write(folder + "/uevent", "DRIVER=" + driver + "\nPCI_SLOT_NAME=" + address + "\n");
    set_status(address, status);
  }
  void set_status(const std::string& address, const std::string& status) const {
    tree_.write("sys/bus/pci/devices/" + address + "/power/runtime_status", status + "\n");
  }
  [[nodiscard]] Result<NvmlWhenAwake> try_open() const {
    return NvmlWhenAwake::open(fake_nvml("3"), tree_.roots().sys);
  }
  [[nodiscard]] NvmlWhenAwake open() const { return try_open().value(); }
  // Everything that a tick may ask.
  static void tick(const NvmlWhenAwake& nvml) {
    const uint32_t count = nvml.device_count().value();
    for (uint32_t index = 0; index < count; ++index) {
      (void)nvml.identity(index);
      (void)nvml.sample(index);
      (void)nvml.health(index);
    }
  }
  // By anybody in this process.
  static bool is_library_open() {
    unsigned count = 0;
    return NvmlApi::load(fake_nvml("3"))->device_get_count(&count) == kSuccess;
  }

  RecordedTree tree_;
  Calls calls_;
  Scenario scenario_{kBoth};
};

TEST_F(NvmlWhenAwakeTest, NothingIsCalledWhileAllSleep) {
  add(kFirst, "suspended");
  add(kSecond, "suspending");
  const NvmlWhenAwake nvml = open();
  for (int count = 0; count < 3; ++count) tick(nvml);
  EXPECT_EQ(nvml.device_count().value(), 2u);
  const DeviceSample sample = nvml.sample(1);
  EXPECT_TRUE(sample.is_asleep);
  EXPECT_EQ(sample.index, 1u);
  EXPECT_EQ(sample.trouble, std::nullopt);
  EXPECT_EQ(sample.memory.total_bytes, std::nullopt);
  EXPECT_EQ(sample.processes, std::nullopt);
  const DeviceIdentity identity = nvml.identity(1);
  EXPECT_EQ(identity.pci_id, kSecond);
  EXPECT_EQ(identity.name, "NVIDIA GPU 10de:28e0");
  EXPECT_EQ(identity.uuid, std::nullopt);
  EXPECT_EQ(calls_.lines(), "");
}

// The library knows the devices that there were at its start.
TEST_F(NvmlWhenAwakeTest, AGpuThatComesLateIsAReasonToOpenTheLibraryAgain) {
  scenario_.change("device 0\nname One\nuuid GPU-1\npci 0 0x19 0\ntotal 100M\nused 10M\n");
  add(kFirst, "active");
  const NvmlWhenAwake nvml = open();
  for (int round = 0; round < 50; ++round) ASSERT_TRUE(nvml.device_count());
  add(kSecond, "active");
  Result<uint32_t> count = nvml.device_count();
  for (int round = 0; round < 8 && count; ++round) count = nvml.device_count();
  ASSERT_FALSE(count) << "found " << *count;
  EXPECT_THAT(count.error().message, HasSubstr("a GPU came to the bus"));
  EXPECT_FALSE(is_library_open());
  scenario_.change(kBoth);
  const NvmlWhenAwake again = open();
  for (int round = 0; round < 50; ++round) ASSERT_EQ(again.device_count().value(), 2u);
}

TEST_F(NvmlWhenAwakeTest, TheLibraryIsOpenWhileADeviceIsAwake) {
  scenario_.change("device 0\nname One\nuuid GPU-1\npci 0 0x19 0\ntotal 100M\nused 10M\n");
  add(kFirst, "suspended");
  const NvmlWhenAwake nvml = open();
  tick(nvml);
  set_status(kFirst, "active");
  EXPECT_EQ(nvml.device_count().value(), 1u);
  EXPECT_EQ(nvml.identity(0).name, "One");
  EXPECT_EQ(nvml.sample(0).memory.used_bytes, 10 * kMiB);
  EXPECT_FALSE(nvml.sample(0).is_asleep);
  EXPECT_TRUE(is_library_open());

  // Asleep again: what it was is remembered, the handles are given up.
  set_status(kFirst, "suspended");
  EXPECT_EQ(nvml.device_count().value(), 1u);
  EXPECT_FALSE(is_library_open());
  calls_.clear();
  tick(nvml);
  EXPECT_TRUE(nvml.sample(0).is_asleep);
  EXPECT_EQ(nvml.identity(0).name, "One");
  EXPECT_EQ(nvml.identity(0).uuid, "GPU-1");
  EXPECT_EQ(calls_.lines(), "");

  set_status(kFirst, "active");
  tick(nvml);
  EXPECT_THAT(calls_.lines(), HasSubstr("nvmlInit"));
  EXPECT_EQ(nvml.sample(0).memory.used_bytes, 10 * kMiB);
}

TEST_F(NvmlWhenAwakeTest, OfSeveralTheSleepingOneIsNotAsked) {
  add(kFirst, "suspended");
  add(kSecond, "active");
  const NvmlWhenAwake nvml = open();
  for (int count = 0; count < 3; ++count) tick(nvml);
  EXPECT_TRUE(nvml.sample(0).is_asleep);
  EXPECT_EQ(nvml.identity(0).pci_id, kFirst);
  EXPECT_EQ(nvml.identity(0).uuid, std::nullopt);
  EXPECT_EQ(nvml.identity(1).name, "Two");
  EXPECT_EQ(nvml.sample(1).memory.used_bytes, 20 * kMiB);
  // Without its handle nothing can be asked of it.
  EXPECT_THAT(calls_.lines(), HasSubstr("HandleByIndex_v2 1\n"));
  EXPECT_THAT(calls_.lines(), Not(HasSubstr("HandleByIndex_v2 0\n")));
  set_status(kFirst, "active");
  EXPECT_EQ(nvml.identity(0).name, "One");
}

TEST_F(NvmlWhenAwakeTest, ADeviceIsKnownByItsAddressWhereOthersAreHidden) {
  scenario_.change("device 0\nname Two\nuuid GPU-2\npci 0 0x3b 0\ntotal 100M\nused 20M\n");
  add(kFirst, "suspended");  // the one that is hidden
  add(kSecond, "active");
  const NvmlWhenAwake nvml = open();
  EXPECT_EQ(nvml.identity(0).uuid, "GPU-2");
  EXPECT_EQ(nvml.device_count().value(), 1u);
  EXPECT_EQ(nvml.sample(0).memory.used_bytes, 20 * kMiB);
  set_status(kFirst, "active");
  set_status(kSecond, "suspended");
  calls_.clear();
  EXPECT_TRUE(nvml.sample(0).is_asleep);
  EXPECT_EQ(nvml.identity(0).uuid, "GPU-2");
  EXPECT_EQ(calls_.lines(), "");
}

TEST_F(NvmlWhenAwakeTest, ALibraryThatCountsInAnotherOrderIsFollowed) {
  scenario_.change(
      "device 0\nname Two\npci 0 0x3b 0\ntotal 100M\nused 20M\n"
      "device 1\nname One\npci 0 0x19 0\ntotal 100M\nused 10M\n");
  add(kFirst, "active");
  add(kSecond, "active");
  const NvmlWhenAwake nvml = open();
  tick(nvml);
  set_status(kFirst, "suspended");
  EXPECT_EQ(nvml.sample(0).memory.used_bytes, 20 * kMiB);
  EXPECT_TRUE(nvml.sample(1).is_asleep);
  EXPECT_EQ(nvml.identity(1).pci_id, kFirst);
}

TEST_F(NvmlWhenAwakeTest, OtherDevicesOnTheBusSayNothingAboutIt) {
  add("0000:00:02.0", "suspended", "8086");
  add("0000:19:00.1", "suspended", "10de", "040300");              // its sound
  add("0000:5e:00.0", "suspended", "10de", "030200", "vfio-pci");  // lent to a virtual machine
  const NvmlWhenAwake nvml = open();
  EXPECT_EQ(nvml.device_count().value(), 2u);
  EXPECT_EQ(nvml.sample(0).memory.used_bytes, 10 * kMiB);
  EXPECT_EQ(nvml.sample(1).memory.used_bytes, 20 * kMiB);
}

// As where there is no bus to see (WSL), or files that say nothing.
TEST_F(NvmlWhenAwakeTest, WhatIsNotKnownToSleepIsAsked) {
  EXPECT_EQ(open().device_count().value(), 2u);
  for (const char* status : {"active", "suspended and cut o", "unsupported", ""}) {
    add(kFirst, status);
    EXPECT_FALSE(open().sample(0).is_asleep) << status;
  }
  tree_.write("sys/bus/pci/devices/" + std::string(kFirst) + "/power/runtime_status", "suspended");
  EXPECT_FALSE(open().sample(0).is_asleep);  // without its newline it was cut off
}

TEST_F(NvmlWhenAwakeTest, SaysThatTheLibraryDoesNotOpenOnceDevicesWake) {
  add(kFirst, "suspended");
  const NvmlWhenAwake nvml = open();
  scenario_.change("driver unloaded\n");
  EXPECT_EQ(nvml.device_count().value(), 1u);
  set_status(kFirst, "active");
  EXPECT_THAT(nvml.device_count().error().message, HasSubstr("nvmlInit answers"));
  EXPECT_FALSE(try_open().has_value());
  scenario_.change(kBoth);
  EXPECT_EQ(nvml.device_count().value(), 2u);
}

TEST_F(NvmlWhenAwakeTest, ADevicePluggedInIsFoundWhileTheOthersSleep) {
  add(kFirst, "suspended");
  const NvmlWhenAwake nvml = open();
  add(kSecond, "suspended");
  EXPECT_EQ(nvml.device_count().value(), 2u);
  set_status(kSecond, "active");
  EXPECT_EQ(nvml.device_count().value(), 2u);
  EXPECT_EQ(nvml.sample(1).memory.used_bytes, 20 * kMiB);
}

TEST_F(NvmlWhenAwakeTest, TellsOfFaultsFromTheSecondLookOn) {
  add(kFirst, "active");
  add(kSecond, "active");
  const NvmlWhenAwake nvml = open();
  tick(nvml);
  EXPECT_THAT(nvml.xid_report().watched, ::testing::IsEmpty());
  EXPECT_THAT(calls_.lines(), Not(HasSubstr("EventSet")));
  EXPECT_THAT(nvml.xid_report().watched, ::testing::ElementsAre(0, 1));
  scenario_.change(std::string(kBoth) + "xid 31\nxid 79\n");
  const XidReport report = nvml.xid_report();
  ASSERT_EQ(report.events.size(), 2U);
  EXPECT_EQ(report.events[0].xid, 31U);
  EXPECT_EQ(report.events[1].xid, 79U);
  EXPECT_EQ(report.events[1].device, 1U);
  EXPECT_THAT(nvml.xid_report().events, ::testing::IsEmpty());
}

TEST_F(NvmlWhenAwakeTest, AsksForNoFaultsWhileADeviceSleeps) {
  add(kFirst, "active");
  add(kSecond, "suspended");
  const NvmlWhenAwake nvml = open();
  for (int round = 0; round < 30; ++round)
    EXPECT_THAT(nvml.xid_report().watched, ::testing::IsEmpty());
  EXPECT_THAT(calls_.lines(), Not(HasSubstr("EventSet")));
}

// What the kernel reports, and nothing if it knows no node that is nearer.
TEST_F(NvmlWhenAwakeTest, TheNodeIsTheBuss) {
  const Scenario scenario(kBoth);
  add(kFirst, "active");
  add(kSecond, "active");
  tree_.write(std::string("sys/bus/pci/devices/") + kFirst + "/numa_node", "1\n");
  tree_.write(std::string("sys/bus/pci/devices/") + kSecond + "/numa_node", "-1\n");
  const NvmlWhenAwake nvml = open();
  EXPECT_EQ(nvml.identity(0).numa_node, 1U);
  EXPECT_EQ(nvml.identity(1).numa_node, std::nullopt);
}

}  // namespace
}  // namespace vram::gpu::nvml
