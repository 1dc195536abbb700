// RocmExtras on trees of machines: queried in addition to the kernel's files, but not while a
// device sleeps, and no tick waits for a library that hangs.
#include "gpu/rocm/rocm_extras.hpp"

#include "base/testing/paths.hpp"
#include "base/testing/waiting.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/testing/fake_libraries.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace vram::gpu::rocm {
namespace {

using gpu::testing::Environment;
using gpu::testing::fake_rocm_smi;
using gpu::testing::RocmCalls;
using gpu::testing::RocmScenario;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kTwo = R"(
device 0x4300
market-name another name
ecc 99 99
pages RR
device 0xc300
market-name AMD Instinct MI210
ecc 4 1
pages RPR
)";
constexpr const char* kLaptop = "device 0x300\nname sleeper\ndevice 0xc400\nname Radeon 780M\n";

std::string tree_file(const char* name) { return data_path("drm/") + name + ".tree"; }

ExtrasOptions options_for(const RecordedTree& tree) {
  return {fake_rocm_smi(), tree.roots().sys, 5ms, 30s};
}

drm::Drm open_drm(const RecordedTree& tree) {
  return drm::Drm::open(tree.roots(), [&](const drm::Roots&) {
    return std::make_unique<RocmExtras>(options_for(tree));
  });
}

void wait_until(const std::function<bool()>& holds) { ASSERT_TRUE(eventually(holds)); }

TEST(RocmExtrasTest, FillsWhatTheKernelsFilesLeaveOpen) {
  const RocmScenario scenario(kTwo);
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  const drm::Drm drm = open_drm(tree);
  EXPECT_EQ(drm.identity(0).name, "Instinct MI210");  // product_name
  EXPECT_EQ(drm.identity(1).name, "AMD Instinct MI210");
  EXPECT_EQ(drm.health(0).ecc_since_boot.corrected, 17u);  // ras/umc_err_count
  EXPECT_EQ(drm.health(0).ecc_since_boot.uncorrected, 2u);
  EXPECT_EQ(drm.health(0).retired_pages.value().of_any_cause, 2u);
  EXPECT_EQ(drm.health(1).ecc_since_boot.corrected, 4u);
  EXPECT_EQ(drm.health(1).ecc_since_boot.uncorrected, 1u);
  EXPECT_EQ(drm.health(1).retired_pages.value().is_pending, true);
  tree.write("sys/class/drm/card1/device/ras/gpu_vram_bad_pages", "");
  EXPECT_EQ(drm.health(1).retired_pages.value().of_any_cause, 0u);
}

TEST(RocmExtrasTest, ANameIsFitForAScreen) {
  const RocmScenario scenario("device 0xc300\nmarket-name \x1b[2JMI210\n");
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  EXPECT_EQ(open_drm(tree).identity(1).name, "\\x1b[2JMI210");
}

TEST(RocmExtrasTest, WithoutTheLibraryTheKernelsFilesAreEnough) {
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  const drm::Drm drm = drm::Drm::open(tree.roots(), [&](const drm::Roots& roots) {
    return std::make_unique<RocmExtras>(ExtrasOptions{{"/nowhere.so"}, roots.sys, 5ms, 30s});
  });
  EXPECT_EQ(drm.identity(1).name, "AMD GPU 1002:740f");
  EXPECT_EQ(drm.health(0).ecc_since_boot.corrected, 17u);
  EXPECT_FALSE(drm.health(1).retired_pages.has_value());
}

TEST(RocmExtrasTest, NobodyIsAskedWhereThereIsNoDeviceOfAmds) {
  const RecordedTree tree(tree_file("i915_6.2_arc"));
  bool is_opened = false;
  const drm::Drm drm = drm::Drm::open(tree.roots(), [&](const drm::Roots&) {
    is_opened = true;
    return nullptr;
  });
  EXPECT_EQ(drm.device_count(), 1u);
  EXPECT_FALSE(is_opened);
}

// The library would wake the sleeper when it starts: it stays closed, for the other one, too.
TEST(RocmExtrasTest, ASleepingDeviceIsNotWokenAndTheLibraryIsShutDown) {
  const RocmScenario scenario(kLaptop);
  const RocmCalls calls;
  const RecordedTree tree(tree_file("apu_6.12"));
  const std::string status = "sys/class/drm/card0/device/power/runtime_status";
  RocmExtras extras(options_for(tree));
  for (int round = 0; round < 20; ++round) {
    EXPECT_FALSE(extras.of("0000:c4:00.0").name.has_value());
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(calls.lines(), "");

  tree.write(status, "active\n");
  wait_until([&] { return extras.of("0000:03:00.0").name == "sleeper"; });
  tree.write(status, "suspended\n");
  wait_until([&] { return calls.lines().ends_with("rsmi_shut_down 0\n"); });
  wait_until([&] { return !extras.of("0000:03:00.0").name.has_value(); });
  calls.clear();
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(calls.lines(), "");
}

TEST(RocmExtrasTest, ADeviceThatIsGoneTakesItsAnswersAlong) {
  const RocmScenario scenario(kTwo);
  const RocmCalls calls;
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  RocmExtras extras(options_for(tree));
  EXPECT_EQ(extras.of("0000:43:00.0").name, "another name");
  tree.remove("sys/class/drm/card2");
  wait_until([&] { return !extras.of("0000:43:00.0").name.has_value(); });
  EXPECT_THAT(calls.lines(), HasSubstr("rsmi_shut_down"));  // it counts again only when it starts
  wait_until([&] { return extras.of("0000:c3:00.0").name.has_value(); });
}

TEST(RocmExtrasTest, ItsEndShutsTheLibraryDown) {
  const RocmScenario scenario(kTwo);
  const RocmCalls calls;
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  EXPECT_TRUE(RocmExtras(options_for(tree)).of("0000:c3:00.0").name.has_value());
  wait_until([&] { return calls.lines().ends_with("rsmi_shut_down 0\n"); });
}

// The first is left behind in the library, so that the second has to wait for its turn.
TEST(RocmExtrasTest, ALibraryThatHangsHoldsUpNobody) {
  const RocmScenario scenario("hang rsmi_init 3000\n" + std::string(kTwo));
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  {
    RocmExtras extras({fake_rocm_smi(), tree.roots().sys, 5ms, 20ms});
    EXPECT_FALSE(extras.of("0000:43:00.0").name.has_value());
  }
  scenario.change(kTwo);
  RocmExtras extras({fake_rocm_smi(), tree.roots().sys, 5ms, 20ms});
  wait_until([&] { return extras.of("0000:43:00.0").name == "another name"; });
}

TEST(RocmExtrasTest, AnswersOfLongAgoAreNone) {
  const RocmScenario scenario(kTwo);
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  RocmExtras extras(options_for(tree));
  EXPECT_TRUE(extras.of("0000:43:00.0").name.has_value());
  scenario.change("hang rsmi_dev_ecc_count_get 300\n" + std::string(kTwo));
  wait_until([&] { return !extras.of("0000:43:00.0").name.has_value(); });
  scenario.change(kTwo);  // and none is left behind, for the tests that follow
  wait_until([&] { return extras.of("0000:43:00.0").name.has_value(); });
}

TEST(RocmExtrasTest, AnExceptionOfTheLibraryEndsItsUse) {
  const RocmScenario scenario("throw rsmi_dev_market_name_get\n" + std::string(kTwo));
  const RocmCalls calls;
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  EXPECT_FALSE(RocmExtras(options_for(tree)).of("0000:43:00.0").name.has_value());
  wait_until([&] { return calls.lines().ends_with("rsmi_shut_down 0\n"); });
  scenario.change(kTwo);
  EXPECT_TRUE(RocmExtras(options_for(tree)).of("0000:43:00.0").name.has_value());
}

TEST(RocmExtrasTest, AnythingThatItAnswersIsShownAsText) {
  const RocmScenario scenario(kTwo);
  const RecordedTree tree(tree_file("amdgpu_6.8_kfd"));
  for (int seed = 1; seed <= 100; ++seed) {
    const Environment chaos("FAKE_ROCM_CHAOS", std::to_string(seed));
    const drm::Drm drm = open_drm(tree);
    const std::string name = drm.identity(1).name.value();
    for (const char c : name) EXPECT_GE(static_cast<unsigned char>(c), ' ') << "seed " << seed;
    EXPECT_EQ(drm.health(0).ecc_since_boot.corrected, 17u);
    EXPECT_LE(drm.health(1).retired_pages.value_or(RetiredPages{}).of_any_cause.value_or(0),
              1u << 16U);
  }
}

}  // namespace
}  // namespace vram::gpu::rocm
