// look.h as a C program uses it, on the fake library (tests/fake_nvml).
#include "base/bytes.hpp"
#include "base/testing/paths.hpp"
#include "base/testing/waiting.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <sys/wait.h>
#include <unistd.h>
#include <vram/look.h>

namespace {

const std::string kLibrary = vram::build_path("tests/fake_nvml/3/libnvidia-ml.so.1");

TEST(Look, DevicesAndProcessesAsPlainStructs) {
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

TEST(Look, SaysWhyItCantBeOpened) {
  vram_look* look = nullptr;
  EXPECT_EQ(vram_look_open("/nowhere.so", &look), VRAM_NO_DRIVER);
  EXPECT_THAT(vram_last_error(), testing::HasSubstr("/nowhere.so"));
  EXPECT_EQ(vram_look_open(kLibrary.c_str(), nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_look_close(nullptr), VRAM_INVALID_VALUE);
}

TEST(Look, AForkHasNothingOpen) {
  vram_look* look = nullptr;
  ASSERT_EQ(vram_look_open(kLibrary.c_str(), &look), VRAM_OK);
  if (const pid_t child = fork(); child == 0) {
    vram_device_info info{};
    info.struct_bytes = sizeof info;
    const bool is_refused = vram_look_device_count(look) == 0 &&
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
