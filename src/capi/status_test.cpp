// status.h as a C program uses it, on the fake library (tests/fake_nvml) and the files of other
// machines' AMD and Intel devices (tests/data/drm).
#include "base/bytes.hpp"
#include "base/testing/paths.hpp"
#include "base/testing/waiting.hpp"
#include "gpu/testing/fake_libraries.hpp"
#include "gpu/testing/recorded_tree.hpp"
#include "record/page_requester.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vram/status.h>

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
  static vram_device_info device_of(vram_sampler* sampler, uint32_t index) {
    vram_device_info info{};
    info.struct_bytes = sizeof info;
    EXPECT_EQ(vram_sampler_read_device(sampler, index, &info, nullptr, nullptr), VRAM_OK);
    return info;
  }

  vram::gpu::RecordedTree none_;
  std::optional<Environment> root_;
};

TEST_F(Look, DevicesAndProcessesAsPlainStructs) {
  vram_sampler* sampler = nullptr;
  ASSERT_EQ(vram_sampler_open(kLibrary.c_str(), &sampler), VRAM_OK) << vram_last_error();
  ASSERT_EQ(vram_sampler_device_count(sampler), 2u);
  vram_device_info info{};
  EXPECT_EQ(vram_sampler_read_device(sampler, 0, &info, nullptr, nullptr), VRAM_INVALID_VALUE);
  info.struct_bytes = sizeof info;
  std::array<vram_process_info, 2> processes{};
  size_t count = processes.size();
  ASSERT_EQ(vram_sampler_read_device(sampler, 0, &info, processes.data(), &count), VRAM_OK);
  EXPECT_STREQ(info.name, "Fake GPU 0");
  EXPECT_STREQ(info.uuid, "GPU-0");
  EXPECT_STREQ(info.error, "");
  EXPECT_EQ(info.total_bytes, info.used_bytes + info.reserved_bytes + info.free_bytes);
  EXPECT_EQ(info.process_count, 5u);
  EXPECT_EQ(info.vendor, VRAM_VENDOR_NVIDIA);
  EXPECT_EQ(info.host_total_bytes, VRAM_UNKNOWN);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(processes[0].pid, 77u);
  EXPECT_EQ(processes[0].used_bytes, VRAM_UNKNOWN);
  EXPECT_EQ(processes[1].kinds, VRAM_PROCESS_COMPUTE | VRAM_PROCESS_GRAPHICS);
  EXPECT_EQ(processes[1].used_bytes, 200 * vram::kMiB);
  ASSERT_EQ(vram_sampler_read_device(sampler, 5, &info, nullptr, nullptr), VRAM_OK);
  EXPECT_STREQ(info.error, "Something Else (2)");
  EXPECT_EQ(info.process_count, VRAM_UNKNOWN);
  EXPECT_EQ(vram_sampler_close(sampler), VRAM_OK);
}

TEST_F(Look, AmdsDevicesFollowNvidias) {
  const vram::gpu::RecordedTree two(vram::data_path("drm/amdgpu_6.8_kfd.tree"));
  show(two);
  vram_sampler* sampler = nullptr;
  ASSERT_EQ(vram_sampler_open(kLibrary.c_str(), &sampler), VRAM_OK) << vram_last_error();
  ASSERT_EQ(vram_sampler_device_count(sampler), 4u);
  EXPECT_STREQ(device_of(sampler, 1).name, "Fake GPU 1");
  vram_device_info info{};
  info.struct_bytes = sizeof info;
  std::array<vram_process_info, 8> processes{};
  size_t count = processes.size();
  ASSERT_EQ(vram_sampler_read_device(sampler, 2, &info, processes.data(), &count), VRAM_OK);
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
  EXPECT_STREQ(device_of(sampler, 3).pci_id, "0000:c3:00.0");
  EXPECT_STRNE(device_of(sampler, 4).error, "");
  EXPECT_EQ(vram_sampler_close(sampler), VRAM_OK);
}

TEST_F(Look, WithoutNvmlAmdsDevicesAreTheFirst) {
  const vram::gpu::RecordedTree two(vram::data_path("drm/amdgpu_6.8_kfd.tree"));
  two.write("sys/class/drm/card1/device/power/runtime_status", "suspended\n");
  show(two);
  vram_sampler* sampler = nullptr;
  ASSERT_EQ(vram_sampler_open("/nowhere.so", &sampler), VRAM_OK) << vram_last_error();
  EXPECT_EQ(vram_sampler_missing(sampler, nullptr, 0), 0u) << "such a machine has no NVML";
  ASSERT_EQ(vram_sampler_device_count(sampler), 2u);
  EXPECT_EQ(device_of(sampler, 0).used_bytes, 55834574848u);
  const vram_device_info asleep = device_of(sampler, 1);
  EXPECT_EQ(asleep.is_asleep, 1u);
  EXPECT_STREQ(asleep.error, "");
  EXPECT_STREQ(asleep.pci_id, "0000:c3:00.0");
  EXPECT_EQ(asleep.used_bytes, VRAM_UNKNOWN);
  EXPECT_EQ(asleep.process_count, VRAM_UNKNOWN);
  EXPECT_EQ(vram_sampler_close(sampler), VRAM_OK);
}

TEST_F(Look, IntelsDevicesAndTheHostsMemoryOfProcesses) {
  const vram::gpu::RecordedTree tiles(vram::data_path("recorded_gpus/xe_two_tiles.tree"));
  show(tiles);
  vram_sampler* sampler = nullptr;
  ASSERT_EQ(vram_sampler_open("/nowhere.so", &sampler), VRAM_OK) << vram_last_error();
  vram_device_info info{};
  info.struct_bytes = sizeof info;
  vram_process_info process{};
  size_t count = 1;
  ASSERT_EQ(vram_sampler_read_device(sampler, 0, &info, &process, &count), VRAM_OK);
  EXPECT_EQ(info.vendor, VRAM_VENDOR_INTEL);
  EXPECT_EQ(info.total_bytes, 128 * vram::kGiB);
  EXPECT_EQ(info.used_bytes, VRAM_UNKNOWN);
  EXPECT_EQ(process.pid, 1383u);
  EXPECT_EQ(process.used_bytes, 128826120 * vram::kKiB);
  EXPECT_EQ(process.host_bytes, 264 * vram::kKiB);
  EXPECT_EQ(vram_sampler_close(sampler), VRAM_OK);
}

// As after an update of the driver, until the module is loaded again.
TEST_F(Look, AnNvmlThatDoesNotStartHidesNoOtherDevices) {
  vram_sampler* sampler = nullptr;
  EXPECT_EQ(vram_sampler_open("libc.so.6", &sampler), VRAM_NOT_SUPPORTED);
  const std::string why = vram_last_error();
  const vram::gpu::RecordedTree two(vram::data_path("drm/amdgpu_6.8_kfd.tree"));
  show(two);
  ASSERT_EQ(vram_sampler_open("libc.so.6", &sampler), VRAM_OK) << vram_last_error();
  std::array<char, 512> text{};
  EXPECT_EQ(vram_sampler_missing(sampler, text.data(), text.size()), why.size());
  EXPECT_EQ(text.data(), why);
  EXPECT_THAT(why, testing::HasSubstr("libc.so.6"));
  std::array<char, 5> few{};
  EXPECT_EQ(vram_sampler_missing(sampler, few.data(), few.size()), why.size());
  EXPECT_EQ(few.data(), why.substr(0, 4));
  EXPECT_EQ(vram_sampler_missing(nullptr, text.data(), text.size()), 0u);
  EXPECT_EQ(vram_sampler_close(sampler), VRAM_OK);
}

TEST_F(Look, AnNvmlThatListsNothingHidesNoOtherDevices) {
  const vram::gpu::RecordedTree two(vram::data_path("drm/amdgpu_6.8_kfd.tree"));
  show(two);
  auto broken = std::make_optional<Environment>("FAKE_NVML_FAIL", "nvmlDeviceGetCount_v2=999");
  vram_sampler* sampler = nullptr;
  ASSERT_EQ(vram_sampler_open(kLibrary.c_str(), &sampler), VRAM_OK) << vram_last_error();
  EXPECT_EQ(vram_sampler_device_count(sampler), 2u);
  EXPECT_STREQ(device_of(sampler, 0).pci_id, "0000:43:00.0");
  EXPECT_GT(vram_sampler_missing(sampler, nullptr, 0), 0u);
  EXPECT_EQ(vram_sampler_close(sampler), VRAM_OK);

  broken.reset();
  ASSERT_EQ(vram_sampler_open(kLibrary.c_str(), &sampler), VRAM_OK) << vram_last_error();
  broken.emplace("FAKE_NVML_FAIL", "nvmlDeviceGetCount_v2=999");
  EXPECT_EQ(vram_sampler_device_count(sampler), 4u) << "numbers remain";
  EXPECT_STREQ(device_of(sampler, 2).pci_id, "0000:43:00.0");
  EXPECT_EQ(vram_sampler_close(sampler), VRAM_OK);
}

TEST_F(Look, SaysWhyItCantBeOpened) {
  vram_sampler* sampler = nullptr;
  EXPECT_EQ(vram_sampler_open("/nowhere.so", &sampler), VRAM_NO_DRIVER);
  EXPECT_THAT(vram_last_error(), testing::HasSubstr("/nowhere.so"));
  EXPECT_EQ(vram_sampler_open(kLibrary.c_str(), nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_sampler_close(nullptr), VRAM_INVALID_VALUE);
}

TEST_F(Look, AForkHasNothingOpen) {
  vram_sampler* sampler = nullptr;
  ASSERT_EQ(vram_sampler_open(kLibrary.c_str(), &sampler), VRAM_OK);
  if (const pid_t child = fork(); child == 0) {
    vram_device_info info{};
    info.struct_bytes = sizeof info;
    const bool is_refused =
        vram_sampler_device_count(sampler) == 0 && vram_sampler_missing(sampler, nullptr, 0) == 0 &&
        vram_sampler_read_device(sampler, 0, &info, nullptr, nullptr) == VRAM_FORKED &&
        vram_sampler_close(sampler) == VRAM_FORKED;
    _exit(is_refused ? 0 : 1);
  } else {
    const int status = vram::status_of_child(child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(vram_sampler_close(sampler), VRAM_OK);
}

}  // namespace

// The board's functions of status.h as a C program uses them.

namespace {

using vram::record::PageRequester;
using vram::record::RequestState;

class BoardDoorTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("VRAM_BOARD", folder_.c_str(), 1);
  }  // NOLINT(concurrency-mt-unsafe)
  void TearDown() override {
    vram_board_close();
    unsetenv("VRAM_BOARD");  // NOLINT(concurrency-mt-unsafe)
    std::filesystem::remove_all(folder_);
  }
  static vram_status post(const char* scope) {
    const vram_board_device device{
        0, 100, 200, 150, VRAM_UNKNOWN, VRAM_UNKNOWN, VRAM_UNKNOWN, VRAM_UNKNOWN, VRAM_UNKNOWN};
    const vram_board_figures figures{sizeof figures, 7, VRAM_UNKNOWN, scope,
                                     &device,        1, sizeof device};
    return vram_board_post(&figures);
  }
  // What this process's status page contains: its scope, or why there is nothing.
  static std::string read(pid_t pid) {
    vram_board_page page{};
    page.struct_bytes = sizeof page;
    const bool is_read = vram_board_read(static_cast<uint32_t>(pid), &page) == VRAM_OK;
    return is_read ? page.scope : vram_last_error();
  }
  std::string folder_ = "/dev/shm/vram-test-capi-" + std::to_string(getpid());
};

TEST_F(BoardDoorTest, PostsAndReads) {
  EXPECT_EQ(post("nowhere"), VRAM_OK);  // no page is open
  EXPECT_THAT(read(getpid()), testing::HasSubstr("found none"));
  ASSERT_EQ(vram_board_open(), VRAM_OK) << vram_last_error();
  ASSERT_EQ(vram_board_open(), VRAM_OK);
  EXPECT_EQ(post("forward"), VRAM_OK);
  vram_board_page page{};
  EXPECT_EQ(vram_board_read(static_cast<uint32_t>(getpid()), &page), VRAM_INVALID_VALUE);
  page.struct_bytes = sizeof page;
  ASSERT_EQ(vram_board_read(static_cast<uint32_t>(getpid()), &page), VRAM_OK);
  EXPECT_EQ(page.owner, VRAM_OWNER_ALIVE);
  EXPECT_STREQ(page.scope, "forward");
  EXPECT_EQ(page.step, 7u);
  EXPECT_EQ(page.step_ns, VRAM_UNKNOWN);
  ASSERT_EQ(page.device_count, 1u);
  EXPECT_EQ(page.devices[0].peak_bytes, 150u);
  vram_board_close();
  EXPECT_EQ(post("closed"), VRAM_OK);
  EXPECT_THAT(read(getpid()), testing::HasSubstr("found none"));
}

// A program that was compiled with another vram_board_device has them at other distances.
TEST_F(BoardDoorTest, DevicesOfAnotherSizeAreRefused) {
  struct Earlier {
    uint64_t device, allocated_bytes, reserved_bytes, peak_bytes, cached_bytes;
  };
  const std::array<Earlier, 2> devices{{{0, 1, 2, 3, 4}, {1, 5, 6, 7, 8}}};
  const auto* const at = reinterpret_cast<const vram_board_device*>(devices.data());
  vram_board_figures figures{sizeof figures, 7, VRAM_UNKNOWN, "", at, 2, sizeof(Earlier)};
  EXPECT_EQ(vram_board_post(&figures), VRAM_INVALID_VALUE);
  figures.struct_bytes = offsetof(vram_board_figures, device_bytes);
  EXPECT_EQ(vram_board_post(&figures), VRAM_INVALID_VALUE);
  figures = {sizeof figures, 7, VRAM_UNKNOWN, "", nullptr, 0, 0};
  EXPECT_EQ(vram_board_post(&figures), VRAM_OK);
}

TEST_F(BoardDoorTest, RequestsAreToldOfUntilTheyAreAnswered) {
  vram_board_trim_request request{};
  EXPECT_EQ(vram_board_request(&request), VRAM_INVALID_VALUE);
  request = {sizeof request, 9, 9, 9};
  EXPECT_EQ(vram_board_request(&request), VRAM_OK);  // no page is open
  EXPECT_EQ(request.number, 0u);
  vram_board_answer(1, 2);
  ASSERT_EQ(vram_board_open(), VRAM_OK);
  auto asked =
      PageRequester::start(folder_, static_cast<uint32_t>(getpid()), {.bytes_or_ns = 4096}).value();
  EXPECT_EQ(vram_board_request(&request), VRAM_OK);
  EXPECT_NE(request.number, 0u);
  EXPECT_EQ(request.device, VRAM_UNKNOWN);
  EXPECT_EQ(request.bytes, 4096u);
  EXPECT_EQ(asked.poll(), RequestState::kAsked);
  vram_board_answer(request.number, 2048);
  EXPECT_EQ(asked.poll(), RequestState::kAnswered);
  EXPECT_EQ(asked.bytes(), 2048u);
  EXPECT_EQ(vram_board_request(&request), VRAM_OK);
  EXPECT_EQ(request.number, 0u);
}

TEST_F(BoardDoorTest, AForkPostsOnItsOwnPageAndTakesItAlong) {
  ASSERT_EQ(vram_board_open(), VRAM_OK);
  post("parent");
  if (const pid_t child = fork(); child == 0) {
    const bool has_none = read(getpid()).find("found none") != std::string::npos;
    post("child");
    const bool is_right = has_none && read(getpid()) == "child" && read(getppid()) == "parent";
    std::exit(is_right ? 0
                       : 1);  // NOLINT(concurrency-mt-unsafe): the orderly end is what is tested
  } else {
    const int status = vram::status_of_child(child);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_THAT(read(child), testing::HasSubstr("found none"));
  }
  EXPECT_EQ(read(getpid()), "parent");
}

TEST_F(BoardDoorTest, AFolderThatCantBeMadeIsSaid) {
  setenv("VRAM_BOARD", "/nowhere/board", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(vram_board_open(), VRAM_NOT_SUPPORTED);
  EXPECT_THAT(vram_last_error(), testing::HasSubstr("/nowhere/board"));
}

// As a user whose folder another one, here root, has made: of this number there is none.
int open_as(uid_t uid, const std::string& runtime) {
  unsetenv("VRAM_BOARD");  // NOLINT(concurrency-mt-unsafe)
  if (runtime.empty())
    unsetenv("XDG_RUNTIME_DIR");  // NOLINT(concurrency-mt-unsafe)
  else
    setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  if (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) return 2;
  if (vram_board_open() != VRAM_OK) {
    const std::string why = vram_last_error();
    const bool is_told =
        why.find("found one of user 0, which only that user") != std::string::npos &&
        why.find("VRAM_BOARD") != std::string::npos;
    return is_told ? 3 : 4;
  }
  const vram_board_figures figures{sizeof figures, 7, VRAM_UNKNOWN, "forward", nullptr, 0, 0};
  if (vram_board_post(&figures) != VRAM_OK) return 5;
  vram_board_page page{};
  page.struct_bytes = sizeof page;
  if (vram_board_read(static_cast<uint32_t>(getpid()), &page) != VRAM_OK) return 6;
  const std::string own = runtime + "/vram/" + std::to_string(getpid());
  return page.step == 7 && std::filesystem::exists(own) ? 0 : 7;
}

TEST_F(BoardDoorTest, WhereAnotherUserHasTakenTheNameThePageLiesInTheRuntimeFolder) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const auto uid = static_cast<uid_t>(700'000'000 + getpid());
  const std::string taken = "/dev/shm/vram-" + std::to_string(uid);
  const std::string runtime = testing::TempDir() + "vram-runtime-" + std::to_string(getpid());
  std::filesystem::create_directory(taken);
  std::filesystem::create_directory(runtime);
  ASSERT_EQ(chown(runtime.c_str(), uid, uid), 0);
  const auto ends = [&](const std::string& folder) {
    const pid_t child = fork();
    if (child == 0) _exit(open_as(uid, folder));
    return WEXITSTATUS(vram::status_of_child(child));
  };
  EXPECT_EQ(ends(runtime), 0);
  EXPECT_EQ(ends(""), 3) << "and without one the message names who has the name";
  std::filesystem::remove_all(taken);
  std::filesystem::remove_all(runtime);
}

// DataLoader's workers that post and end by _exit().
TEST_F(BoardDoorTest, PagesOfDeadChildrenGo) {
  ASSERT_EQ(vram_board_open(), VRAM_OK) << vram_last_error();
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(folder_),
                         std::filesystem::directory_iterator());
  };
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    if (child == 0) _exit(post("worker") == VRAM_OK && read(getpid()) == "worker" ? 0 : 1);
    ASSERT_EQ(WEXITSTATUS(vram::status_of_child(child)), 0);
    EXPECT_LE(files(), 2) << "this process's, and the last child's";
  }
  vram_board_close();
  EXPECT_EQ(files(), 0);
}

}  // namespace
