// RocmSmi on the fake library: versions, addresses, and unknown and impossible figures.
#include "gpu/rocm/rocm_smi.hpp"

#include "base/testing/paths.hpp"
#include "base/testing/waiting.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/testing/fake_libraries.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <functional>
#include <thread>

namespace vram::gpu::rocm {
namespace {

using gpu::testing::Environment;
using gpu::testing::fake_nvml;
using gpu::testing::fake_rocm_smi;
using gpu::testing::RocmCalls;
using gpu::testing::RocmScenario;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kTwoDevices = R"(
device 0x4300
market-name AMD Instinct MI210
name Aldebaran/MI200
ecc 17 2
pages RRRPF
device 0xc300
name Aldebaran
ecc max 0
pages
)";

void expect_nothing(const drm::AmdExtra& extra) {
  EXPECT_FALSE(extra.name || extra.ecc_since_boot.corrected || extra.ecc_since_boot.uncorrected);
  EXPECT_FALSE(extra.retired_pages.has_value());
}

RocmSmi open(const std::string& version = "7") {
  return RocmSmi::open(fake_rocm_smi(version)).value();
}

TEST(RocmSmiTest, SaysWhatItKnowsOfTheDeviceAtAnAddress) {
  const RocmScenario scenario(kTwoDevices);
  const RocmSmi smi = open();
  const drm::AmdExtra first = smi.query("0000:43:00.0");
  EXPECT_EQ(first.name, "AMD Instinct MI210");
  EXPECT_EQ(first.ecc_since_boot.corrected, 17u);
  EXPECT_EQ(first.ecc_since_boot.uncorrected, 2u);
  const RetiredPages pages = first.retired_pages.value();
  EXPECT_EQ(pages.of_any_cause, 3u);
  EXPECT_EQ(pages.is_pending, true);
  EXPECT_EQ(pages.has_failed, true);
  EXPECT_FALSE(pages.corrected || pages.uncorrected);

  const drm::AmdExtra second = smi.query("0000:c3:00.0");
  EXPECT_EQ(second.name, "Aldebaran");
  EXPECT_EQ(second.ecc_since_boot.corrected, std::nullopt);  // all ones
  EXPECT_EQ(second.ecc_since_boot.uncorrected, 0u);
  EXPECT_EQ(second.retired_pages.value().of_any_cause, 0u);
  EXPECT_EQ(second.retired_pages.value().is_pending, false);
  expect_nothing(smi.query("0000:44:00.0"));
}

TEST(RocmSmiTest, OlderVersionsLackFunctions) {
  const RocmScenario scenario(kTwoDevices);
  EXPECT_EQ(open("5").query("0000:43:00.0").name, "Aldebaran/MI200");
  EXPECT_EQ(open("5").query("0000:43:00.0").retired_pages.value().of_any_cause, 3u);
  expect_nothing(open("4").query("0000:43:00.0"));
}

// Bus 0x43, device 0x1f, function 7 in domain 0x10000; and a device in parts, the first of them
// counted last.
TEST(RocmSmiTest, AddressesHaveDomainsAndParts) {
  const RocmScenario scenario(R"(
device 0x10000000043ff
name far
device 0x120004300
name second part
device 0x110004300
name first part
device 0x100004300
name whole
)");
  const RocmSmi smi = open();
  EXPECT_EQ(smi.query("10000:43:1f.7").name, "far");
  EXPECT_EQ(smi.query("0001:43:00.0").name, "whole");
}

TEST(RocmSmiTest, WhatIsNoNameIsNone) {
  const RocmScenario scenario(
      "device 0x100\nmarket-name N/A\nname 0x744c\ndevice 0x200\nname 0x744c\nmarket-name \n"
      "device 0x300\nmarket-name Radeon\nfail rsmi_dev_market_name_get 2\n");
  const RocmSmi smi = open();
  for (const char* const address : {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"})
    expect_nothing(smi.query(address));
}

TEST(RocmSmiTest, AnErrorTakesItsOwnFigureAway) {
  const RocmScenario scenario(R"(
device 0x4300
name a
ecc 1 2
pages RR
fail rsmi_dev_ecc_count_get 2
device 0x4400
name b
ecc 1 2
pages R?
device 0x4500
fail rsmi_dev_pci_id_get 6
name c
device 0x4600
name d
fail rsmi_dev_memory_reserved_pages_get 4294967295
)");
  const RocmSmi smi = open();
  EXPECT_EQ(smi.query("0000:43:00.0").ecc_since_boot.corrected, std::nullopt);
  EXPECT_EQ(smi.query("0000:43:00.0").retired_pages.value().of_any_cause, 2u);
  EXPECT_EQ(smi.query("0000:44:00.0").ecc_since_boot.uncorrected, 2u);
  // Their state is unknown.
  EXPECT_FALSE(smi.query("0000:44:00.0").retired_pages.has_value());
  expect_nothing(smi.query("0000:45:00.0"));
  EXPECT_EQ(smi.query("0000:46:00.0").name, "d");
}

TEST(RocmSmiTest, WhatDoesNotOpenSaysWhy) {
  const auto nowhere = RocmSmi::open({"/nowhere/a.so", "/nowhere/b.so"});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Code::kNotFound);
  EXPECT_THAT(nowhere.error().message, HasSubstr("/nowhere/a.so, /nowhere/b.so"));
  const auto other = RocmSmi::open({fake_nvml("3")});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kUnsupported);
  const RocmScenario scenario("fail rsmi_init 8\n");
  const RocmCalls calls;
  const auto refused = RocmSmi::open(fake_rocm_smi());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("rsmi_init answers 8"));
  EXPECT_EQ(calls.lines(), "rsmi_init 0\n");
}

TEST(RocmSmiTest, TheFirstFileThatThereIsIsTaken) {
  const RocmScenario scenario(kTwoDevices);
  const auto smi = RocmSmi::open({"/nowhere/a.so", fake_rocm_smi()[0], fake_rocm_smi("4")[0]});
  EXPECT_EQ(smi.value().query("0000:43:00.0").name, "AMD Instinct MI210");
  const Environment named("VRAM_ROCM_SMI", "/some/file.so");
  EXPECT_THAT(libraries(), ::testing::ElementsAre("/some/file.so"));
}

TEST(RocmSmiTest, ItsEndLetsGoOfTheLibrary) {
  const RocmScenario scenario(kTwoDevices);
  const RocmCalls calls;
  const std::string file = fake_rocm_smi()[0];
  {
    RocmSmi smi = open();
    const RocmSmi moved = std::move(smi);
    void* const loaded = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(loaded, nullptr);
    dlclose(loaded);
    EXPECT_THAT(calls.lines(), Not(HasSubstr("rsmi_shut_down")));
  }
  EXPECT_TRUE(calls.lines().ends_with("rsmi_shut_down 0\n"));
  EXPECT_EQ(dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(RocmSmiTest, ALibraryThatAnswersAnythingSaysWhatCanBe) {
  const RocmScenario scenario(kTwoDevices);
  size_t named = 0;
  size_t with_pages = 0;
  for (int seed = 1; seed <= 2000; ++seed) {
    const Environment chaos("FAKE_ROCM_CHAOS", std::to_string(seed));
    const auto smi = RocmSmi::open(fake_rocm_smi());
    if (!smi) continue;
    for (const char* const address : {"0000:43:00.0", "0000:c3:00.0"}) {
      const drm::AmdExtra extra = smi->query(address);
      EXPECT_LE(extra.name.value_or("").size(), 256u);
      EXPECT_NE(extra.ecc_since_boot.corrected, UINT64_MAX);
      named += extra.name ? 1 : 0;
      if (!extra.retired_pages) continue;
      ++with_pages;
      EXPECT_LE(extra.retired_pages->of_any_cause.value(), 1u << 16U);
    }
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(named, 500u);  // else nothing was put to the test
  EXPECT_GT(with_pages, 500u);
}

// RocmExtras on trees of machines: queried in addition to the kernel's files, but not while a
// device sleeps, and no tick waits for a library that hangs.
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
