// Each finding by a machine that has it and one that is as near to it as can be and has not; and
// what a finding says where the words matter.
#include "doctor/examine.hpp"

#include "base/testing/paths.hpp"
#include "doctor/testing/cases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>

namespace vram::doctor {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& part : {platform_cases(), driver_cases(), permission_cases(), container_cases(),
                           sharing_cases(), health_cases(), torch_cases(), variable_cases()})
    cases.insert(cases.end(), part.begin(), part.end());
  return cases;
}

Report report_of(void (*change)(Facts&)) {
  Facts facts = healthy();
  change(facts);
  return examine(facts);
}

std::vector<std::string> ids_in(const Report& report) {
  std::vector<std::string> ids;
  for (const Finding& finding : report.findings) ids.push_back(finding.id);
  return ids;
}

const Finding& finding_in(const Report& report, std::string_view id) {
  const auto found = std::ranges::find(report.findings, id, &Finding::id);
  EXPECT_NE(found, report.findings.end()) << id;
  return *found;
}

TEST(Examine, FindsWhatIsThereAndNothingElse) {
  for (const Case& one : all_cases()) {
    EXPECT_THAT(ids_in(report_of(one.ill)), Contains(one.id)) << "where it is ill";
    EXPECT_THAT(ids_in(report_of(one.well)), Not(Contains(one.id))) << "where it is well";
  }
}

TEST(Examine, EveryFindingHasItsCase) {
  std::set<std::string_view> tried;
  for (const Case& one : all_cases()) EXPECT_TRUE(tried.insert(one.id).second) << one.id;
  const std::set<std::string_view> all(finding_ids().begin(), finding_ids().end());
  EXPECT_EQ(tried, all);
}

TEST(Examine, EveryFindingIsDocumented) {
  std::ifstream file(source_path("docs/doctor.md"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const std::string_view id : finding_ids())
    EXPECT_THAT(text, HasSubstr("| `" + std::string(id) + "` |"));
  const auto rows = std::ranges::count(text, '`') / 2;
  EXPECT_GE(rows, static_cast<std::ptrdiff_t>(finding_ids().size()));
}

// A finding says what, why and what to do.
TEST(Examine, EveryFindingIsWhole) {
  for (const Case& one : all_cases()) {
    for (const Finding& finding : report_of(one.ill).findings) {
      EXPECT_FALSE(finding.what.empty()) << finding.id;
      EXPECT_EQ(finding.what.find('\n'), std::string::npos) << finding.id;
      if (finding.severity == Severity::kGood) continue;
      EXPECT_FALSE(finding.why.empty()) << finding.id;
      EXPECT_FALSE(finding.repair.how.empty() && finding.repair.commands.empty()) << finding.id;
      EXPECT_FALSE(finding.repair.how.ends_with('.')) << finding.id;
    }
  }
}

// A command of ours can be copied as it is: no name in it stands for another. Others need the name
// of a container or a node that is not known in here.
TEST(Examine, OwnCommandsHaveNoPlaceholders) {
  for (const Case& one : all_cases()) {
    for (const Finding& finding : report_of(one.ill).findings) {
      for (const std::string& command : finding.repair.commands) {
        if (!command.starts_with("vram ")) continue;
        EXPECT_THAT(command, Not(::testing::ContainsRegex("(^| )[A-Z]+( |$)"))) << finding.id;
      }
    }
  }
}

TEST(Examine, OfAHealthyMachineOnlyGoodIsTold) {
  const Report report = report_of(nothing);
  EXPECT_THAT(ids_in(report), ElementsAre("driver.good", "permissions.good", "health.good"));
  EXPECT_EQ(report.usable_gpus, 2U);
}

TEST(Examine, NothingIsHeldAgainstWhatIsUnknown) {
  const Report report = examine(MachineFacts{});
  EXPECT_THAT(ids_in(report), ElementsAre("platform.no_gpu"));
  EXPECT_EQ(report.usable_gpus, 0U);
}

TEST(Examine, CountsTheGpusThatProgramsCanUse) {
  EXPECT_EQ(report_of([](Facts& f) { first_device(f).sample.trouble = "lost"; }).usable_gpus, 1U);
  EXPECT_EQ(report_of([](Facts& f) { break_cuda(f, 802); }).usable_gpus, 0U);
  EXPECT_EQ(report_of([](Facts& f) { have_amd(f, 0); }).usable_gpus, 1U);
}

TEST(Examine, SubjectsStayTogetherAndTheWorstComesFirst) {
  const Report report = report_of([](Facts& f) {
    first_device(f).health.bar1->total_bytes = 256 * kMiB;
    first_device(f).health.ecc_since_boot.uncorrected = 1;
    torch(f, "max_split_size_mb:64,expandible_segments:True");
  });
  EXPECT_THAT(ids_in(report), ElementsAre("driver.good", "permissions.good", "torch.unknown_key",
                                          "torch.small_split", "torch.not_expandable", "health.ecc",
                                          "health.small_bar"));
}

TEST(Examine, RepairsAreForWhoAsksAndWhere) {
  const auto commands = [](void (*change)(Facts&), std::string_view id) {
    return finding_in(report_of(change), id).repair.commands;
  };
  const auto mismatch = [](Facts& f) { break_nvml(f, 18); };
  EXPECT_EQ(commands(mismatch, "driver.version_mismatch")[0], "sudo reboot");
  const auto as_root = [](Facts& f) {
    break_nvml(f, 18);
    f.process.uid = 0;
  };
  EXPECT_EQ(commands(as_root, "driver.version_mismatch")[0], "reboot");
  const auto inside = [](Facts& f) {
    put_into_container(f);
    break_nvml(f, 18);
  };
  EXPECT_EQ(commands(inside, "driver.version_mismatch")[0], "docker restart CONTAINER");
  const auto podman = [](Facts& f) {
    put_into_container(f);
    f.container.runtime = "podman";
    take_nodes_away(f);
  };
  EXPECT_EQ(commands(podman, "container.no_gpu_given")[0],
            "podman run --device nvidia.com/gpu=all …");
  const auto amd = [](Facts& f) { have_amd(f, EACCES); };
  EXPECT_THAT(commands(amd, "permissions.dri_denied"),
              ElementsAre("sudo usermod -aG render $USER"));
}

std::vector<std::string> commands_in(const Facts& facts) {
  std::vector<std::string> commands;
  for (const Finding& finding : examine(facts).findings)
    commands.insert(commands.end(), finding.repair.commands.begin(), finding.repair.commands.end());
  return commands;
}

// Indices count from 0 in each container; without -i all GPUs are meant.
TEST(Examine, EveryCommandThatChangesAGpuNamesItsUuid) {
  size_t found = 0;
  for (const Case& one : all_cases()) {
    for (const bool is_inside : {false, true}) {
      Facts facts = healthy();
      one.ill(facts);
      if (is_inside) put_into_container(facts);
      for (const std::string& command : commands_in(facts)) {
        for (const char* change : {"--gpu-reset", "-c DEFAULT", "-mig ", "-cgi"}) {
          if (command.find(change) == std::string::npos) continue;
          EXPECT_THAT(command, ::testing::ContainsRegex("nvidia-smi (mig )?-i GPU-[0-9]abc "))
              << one.id;
          ++found;
        }
      }
    }
  }
  EXPECT_GE(found, 10U);
}

TEST(Examine, ADeadProcesssGpusAloneAreReset) {
  Facts facts = healthy();
  add_holder(facts, true, false);
  const uint32_t pid = facts.holders->holders.front().facts.pid;
  watch::Process process;
  process.facts.edit().pid = pid;
  process.uses.push_back({1, {}, std::nullopt});
  facts.snapshot->processes.push_back(std::move(process));
  EXPECT_THAT(finding_in(examine(facts), "health.zombie").repair.commands,
              ElementsAre("sudo fuser -v /dev/nvidia*", "sudo nvidia-smi -i GPU-1abc --gpu-reset"));
}

TEST(Examine, ADriverThatAsksForLessThanAResetGetsLess) {
  const auto commands = [](const char* action) {
    Facts facts = healthy();
    first_device(facts).health.recovery_action = action;
    return finding_in(examine(facts), "health.recovery").repair.commands;
  };
  EXPECT_THAT(commands("reboot"), ElementsAre("sudo reboot"));
  EXPECT_THAT(commands("drain peer to peer"), ElementsAre("nvidia-smi -i GPU-0abc -q"));
  EXPECT_THAT(commands("reset"),
              ElementsAre("sudo nvidia-smi -i GPU-0abc --gpu-reset", "sudo reboot"));
}

TEST(Examine, AnUuidThatIsNoneGetsIntoNoCommand) {
  Facts facts = healthy();
  first_device(facts).identity.uuid = "GPU-0;touch /tmp/x";
  first_device(facts).health.recovery_action = "reset";
  EXPECT_THAT(commands_in(facts), Not(Contains(HasSubstr("touch"))));
}

TEST(Examine, InWslTheDriverAloneIsRemoved) {
  Facts facts = healthy();
  be_a_wsl(facts);
  facts.nvidia.libraries = {
      {"/usr/local/cuda/compat/libcuda.so.550.54.15", "libcuda", "550.54.15"}};
  EXPECT_THAT(ids_in(examine(facts)), Not(Contains("platform.wsl_linux_driver")));
  facts.nvidia.libraries.push_back(
      {"/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", "libcuda", "550.54.15"});
  const auto commands = finding_in(examine(facts), "platform.wsl_linux_driver").repair.commands;
  EXPECT_THAT(commands, Contains("dpkg -S /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15"));
  for (const char* other : {"'nvidia-*'", "'libnvidia-*'"})
    EXPECT_THAT(commands, Not(Contains(HasSubstr(other)))) << "the container toolkit's, too";
}

TEST(Examine, ASharedMemoryThatIsThereIsNotHidden) {
  Facts facts = healthy();
  facts.shared_memory.is_writable = false;
  EXPECT_THAT(finding_in(examine(facts), "permissions.shared_memory").repair.commands,
              ElementsAre("sudo chmod 1777 /dev/shm"));
}

TEST(Examine, TorchSettingsAreCorrected) {
  const auto command = [](const std::string& value) {
    Facts facts = healthy();
    torch(facts, value);
    const Report report = examine(facts);
    const auto bad = std::ranges::find(report.findings, Severity::kBad, &Finding::severity);
    return bad == report.findings.end() ? "" : bad->repair.commands.front();
  };
  EXPECT_EQ(command("expandible_segments:true"),
            "export PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'");
  EXPECT_EQ(command("max_split_size:512,garbage_collection_threshold:80"),
            "export PYTORCH_CUDA_ALLOC_CONF='max_split_size_mb:512'");
  EXPECT_EQ(command("dance:1"), "unset PYTORCH_CUDA_ALLOC_CONF");
}

// An environment is its process's choice, and commands are copied into shells.
TEST(Examine, NoWordOfAnEnvironmentGetsIntoACommand) {
  const std::string evil = "';touch /tmp/x;'";
  for (const char* name :
       {kTorch, "PYTORCH_ALLOC_CONF", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "LD_PRELOAD", "VRAM_BOARD", "VRAM_BORD", "VRAM_NVML",
        "NVIDIA_VISIBLE_DEVICES", "TF_GPU_ALLOCATOR", "XLA_CLIENT_MEM_FRACTION"}) {
    Facts facts = healthy();
    set(facts, name, "backend:" + evil + ",max_split_size_mb:" + evil + "," + evil);
    facts.mps = {0U, evil, true};
    facts.process.preloaded = {{evil, false}};
    facts.boards = {{.path = evil, .exists = true, .uid = 1U, .mode = 0777U}};
    set(facts, "VRAM_BOARD", evil);
    for (const Finding& finding : examine(facts).findings) {
      for (const std::string& command : finding.repair.commands)
        EXPECT_THAT(command, Not(HasSubstr("touch"))) << finding.id << " by " << name;
    }
  }
}

TEST(Examine, AnOldDriverLosesMoreTheOlderItIs) {
  const auto finding = [](const char* version) {
    Facts facts = healthy();
    facts.nvidia.nvml.version = version;
    return finding_in(examine(facts), "driver.old");
  };
  EXPECT_EQ(finding("550.54.15").severity, Severity::kNote);
  EXPECT_THAT(finding("550.54.15").why, Not(HasSubstr("CUDA 12")));
  EXPECT_EQ(finding("470.223.02").severity, Severity::kWarning);
  EXPECT_THAT(finding("470.223.02").why, HasSubstr("CUDA 12"));
  EXPECT_THAT(finding("418.40").why, HasSubstr("pool"));
}

TEST(Examine, XidsOfProgramsAreNotHeldAgainstTheGpu) {
  Facts facts = healthy();
  log_xid(facts, 31);
  EXPECT_EQ(finding_in(examine(facts), "health.xid").severity, Severity::kNote);
  facts = healthy();
  log_xid(facts, 79);
  const Finding finding = finding_in(examine(facts), "health.xid");
  EXPECT_EQ(finding.severity, Severity::kBad);
  EXPECT_THAT(finding.what, HasSubstr("2 times"));
}

TEST(Examine, AContainerIsToldOfItsOwnTroubleOnly) {
  const Report report = report_of([](Facts& f) {
    put_into_container(f);
    break_nvml(f, 999);
    f.nvidia.nodes[0].refused = EPERM;
  });
  EXPECT_THAT(ids_in(report), ElementsAre("container.devices_lost"));
}

}  // namespace
}  // namespace vram::doctor
