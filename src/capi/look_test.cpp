// look.h as a C program uses it, on the fake library (tests/fake_nvml) and the files of other
// machines' AMD and Intel devices (tests/data/drm).
#include "base/bytes.hpp"
#include "base/testing/paths.hpp"
#include "base/testing/waiting.hpp"
#include "gpu/testing/controls.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vram/look.h>

namespace {

using vram::gpu::testing::Environment;

const std::string kLibrary = vram::build_path("tests/fake_nvml/3/libnvidia-ml.so.1");

class Look : public testing::Test {
 protected:
  void SetUp() override { show(none_); }
  // The machine that has these devices besides NVIDIA's.
  void show(const vram::gpu::RecordedTree& tree) {
    root_.emplace("VRAM_DRM_ROOT", std::filesystem::path(tree.roots().sys).parent_path());
  }
  static vram_device_info device_of(vram_look* look, uint32_t index) {
    vram_device_info info{};
    info.struct_bytes = sizeof info;
    EXPECT_EQ(vram_look_device(look, index, &info, nullptr, nullptr), VRAM_OK);
    return info;
  }

  vram::gpu::RecordedTree none_;
  std::optional<Environment> root_;
};

TEST_F(Look, DevicesAndProcessesAsPlainStructs) {
  vram_look* look = nullptr;
  ASSERT_EQ(vram_look_open(kLibrary.c_str(), &look), VRAM_OK) << vram_last_error();
  ASSERT_EQ(vram_look_device_count(look), 2u);
  vram_device_info info{};
  EXPECT_EQ(vram_look_device(look, 0, &info, nullptr, nullptr), VRAM_INVALID_VALUE);
  info.struct_bytes = sizeof info;
  std::array<vram_process_info, 2> processes{};
  size_t count = processes.size();
  ASSERT_EQ(vram_look_device(look, 0, &info, processes.data(), &count), VRAM_OK);
  EXPECT_STREQ(info.name, "Fake GPU 0");
  EXPECT_STREQ(info.uuid, "GPU-0");
  EXPECT_STREQ(info.trouble, "");
  EXPECT_EQ(info.total_bytes, info.used_bytes + info.reserved_bytes + info.free_bytes);
  EXPECT_EQ(info.process_count, 5u);
  EXPECT_EQ(info.vendor, VRAM_VENDOR_NVIDIA);
  EXPECT_EQ(info.host_total_bytes, VRAM_UNKNOWN);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(processes[0].pid, 77u);
  EXPECT_EQ(processes[0].used_bytes, VRAM_UNKNOWN);
  EXPECT_EQ(processes[1].kinds, VRAM_PROCESS_COMPUTE | VRAM_PROCESS_GRAPHICS);
  EXPECT_EQ(processes[1].used_bytes, 200 * vram::kMiB);
  ASSERT_EQ(vram_look_device(look, 5, &info, nullptr, nullptr), VRAM_OK);
  EXPECT_STREQ(info.trouble, "Something Else (2)");
  EXPECT_EQ(info.process_count, VRAM_UNKNOWN);
  EXPECT_EQ(vram_look_close(look), VRAM_OK);
}

TEST_F(Look, AmdsDevicesFollowNvidias) {
  const vram::gpu::RecordedTree two(vram::data_path("drm/amdgpu_6.8_kfd.tree"));
  show(two);
  vram_look* look = nullptr;
  ASSERT_EQ(vram_look_open(kLibrary.c_str(), &look), VRAM_OK) << vram_last_error();
  ASSERT_EQ(vram_look_device_count(look), 4u);
  EXPECT_STREQ(device_of(look, 1).name, "Fake GPU 1");
  vram_device_info info{};
  info.struct_bytes = sizeof info;
  std::array<vram_process_info, 8> processes{};
  size_t count = processes.size();
  ASSERT_EQ(vram_look_device(look, 2, &info, processes.data(), &count), VRAM_OK);
  EXPECT_STREQ(info.name, "Instinct MI210");
  EXPECT_STREQ(info.uuid, "df36cd97be6d2a1e");
  EXPECT_STREQ(info.pci_id, "0000:43:00.0");
  EXPECT_EQ(info.vendor, VRAM_VENDOR_AMD);
  EXPECT_EQ(info.used_bytes, 55834574848u);
  EXPECT_EQ(info.total_bytes, 68702699520u);
  EXPECT_EQ(info.host_total_bytes, 33554432000u);
  EXPECT_EQ(info.host_used_bytes, 16777216u);
  EXPECT_EQ(info.busy_percent, 97u);
  EXPECT_EQ(info.is_asleep, 0u);
  EXPECT_EQ(info.process_count, count);
  ASSERT_GE(count, 1u);
  EXPECT_EQ(processes[0].pid, 5100u);
  EXPECT_EQ(processes[0].used_bytes, 48 * vram::kGiB);
  EXPECT_EQ(processes[0].kinds, VRAM_PROCESS_COMPUTE);
  EXPECT_EQ(processes[0].gpu_instance, VRAM_NO_INSTANCE);
  EXPECT_STREQ(device_of(look, 3).pci_id, "0000:c3:00.0");
  EXPECT_STRNE(device_of(look, 4).trouble, "");
  EXPECT_EQ(vram_look_close(look), VRAM_OK);
}

TEST_F(Look, WithoutNvmlAmdsDevicesAreTheFirst) {
  const vram::gpu::RecordedTree two(vram::data_path("drm/amdgpu_6.8_kfd.tree"));
  two.write("sys/class/drm/card1/device/power/runtime_status", "suspended\n");
  show(two);
  vram_look* look = nullptr;
  ASSERT_EQ(vram_look_open("/nowhere.so", &look), VRAM_OK) << vram_last_error();
  EXPECT_EQ(vram_look_missing(look, nullptr, 0), 0u) << "such a machine has no NVML";
  ASSERT_EQ(vram_look_device_count(look), 2u);
  EXPECT_EQ(device_of(look, 0).used_bytes, 55834574848u);
  const vram_device_info asleep = device_of(look, 1);
  EXPECT_EQ(asleep.is_asleep, 1u);
  EXPECT_STREQ(asleep.trouble, "");
  EXPECT_STREQ(asleep.pci_id, "0000:c3:00.0");
  EXPECT_EQ(asleep.used_bytes, VRAM_UNKNOWN);
  EXPECT_EQ(asleep.process_count, VRAM_UNKNOWN);
  EXPECT_EQ(vram_look_close(look), VRAM_OK);
}

TEST_F(Look, IntelsDevicesAndTheHostsMemoryOfProcesses) {
  const vram::gpu::RecordedTree tiles(vram::data_path("recorded_gpus/xe_two_tiles.tree"));
  show(tiles);
  vram_look* look = nullptr;
  ASSERT_EQ(vram_look_open("/nowhere.so", &look), VRAM_OK) << vram_last_error();
  vram_device_info info{};
  info.struct_bytes = sizeof info;
  vram_process_info process{};
  size_t count = 1;
  ASSERT_EQ(vram_look_device(look, 0, &info, &process, &count), VRAM_OK);
  EXPECT_EQ(info.vendor, VRAM_VENDOR_INTEL);
  EXPECT_EQ(info.total_bytes, 128 * vram::kGiB);
  EXPECT_EQ(info.used_bytes, VRAM_UNKNOWN);
  EXPECT_EQ(process.pid, 1383u);
  EXPECT_EQ(process.used_bytes, 128826120 * vram::kKiB);
  EXPECT_EQ(process.host_bytes, 264 * vram::kKiB);
  EXPECT_EQ(vram_look_close(look), VRAM_OK);
}

// As after an update of the driver, until the module is loaded anew.
TEST_F(Look, AnNvmlThatDoesNotStartHidesNoOtherDevices) {
  vram_look* look = nullptr;
  EXPECT_EQ(vram_look_open("libc.so.6", &look), VRAM_NOT_SUPPORTED);
  const std::string why = vram_last_error();
  const vram::gpu::RecordedTree two(vram::data_path("drm/amdgpu_6.8_kfd.tree"));
  show(two);
  ASSERT_EQ(vram_look_open("libc.so.6", &look), VRAM_OK) << vram_last_error();
  std::array<char, 512> text{};
  EXPECT_EQ(vram_look_missing(look, text.data(), text.size()), why.size());
  EXPECT_EQ(text.data(), why);
  EXPECT_THAT(why, testing::HasSubstr("libc.so.6"));
  std::array<char, 5> few{};
  EXPECT_EQ(vram_look_missing(look, few.data(), few.size()), why.size());
  EXPECT_EQ(few.data(), why.substr(0, 4));
  EXPECT_EQ(vram_look_missing(nullptr, text.data(), text.size()), 0u);
  EXPECT_EQ(vram_look_close(look), VRAM_OK);
}

TEST_F(Look, AnNvmlThatListsNothingHidesNoOtherDevices) {
  const vram::gpu::RecordedTree two(vram::data_path("drm/amdgpu_6.8_kfd.tree"));
  show(two);
  auto broken = std::make_optional<Environment>("FAKE_NVML_FAIL", "nvmlDeviceGetCount_v2=999");
  vram_look* look = nullptr;
  ASSERT_EQ(vram_look_open(kLibrary.c_str(), &look), VRAM_OK) << vram_last_error();
  EXPECT_EQ(vram_look_device_count(look), 2u);
  EXPECT_STREQ(device_of(look, 0).pci_id, "0000:43:00.0");
  EXPECT_GT(vram_look_missing(look, nullptr, 0), 0u);
  EXPECT_EQ(vram_look_close(look), VRAM_OK);

  broken.reset();
  ASSERT_EQ(vram_look_open(kLibrary.c_str(), &look), VRAM_OK) << vram_last_error();
  broken.emplace("FAKE_NVML_FAIL", "nvmlDeviceGetCount_v2=999");
  EXPECT_EQ(vram_look_device_count(look), 4u) << "numbers remain";
  EXPECT_STREQ(device_of(look, 2).pci_id, "0000:43:00.0");
  EXPECT_EQ(vram_look_close(look), VRAM_OK);
}

TEST_F(Look, SaysWhyItCantBeOpened) {
  vram_look* look = nullptr;
  EXPECT_EQ(vram_look_open("/nowhere.so", &look), VRAM_NO_DRIVER);
  EXPECT_THAT(vram_last_error(), testing::HasSubstr("/nowhere.so"));
  EXPECT_EQ(vram_look_open(kLibrary.c_str(), nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_look_close(nullptr), VRAM_INVALID_VALUE);
}

TEST_F(Look, AForkHasNothingOpen) {
  vram_look* look = nullptr;
  ASSERT_EQ(vram_look_open(kLibrary.c_str(), &look), VRAM_OK);
  if (const pid_t child = fork(); child == 0) {
    vram_device_info info{};
    info.struct_bytes = sizeof info;
    const bool is_refused = vram_look_device_count(look) == 0 &&
                            vram_look_missing(look, nullptr, 0) == 0 &&
                            vram_look_device(look, 0, &info, nullptr, nullptr) == VRAM_FORKED &&
                            vram_look_close(look) == VRAM_FORKED;
    _exit(is_refused ? 0 : 1);
  } else {
    const int status = vram::status_of_child(child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(vram_look_close(look), VRAM_OK);
}

}  // namespace
