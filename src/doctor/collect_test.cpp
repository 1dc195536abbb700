// What collect() reads of made-up machines (tests/data/doctor), and what the fake libraries answer.
#include "doctor/collect.hpp"

#include "base/bytes.hpp"
#include "base/testing/paths.hpp"
#include "doctor/examine.hpp"
#include "gpu/testing/fake_cuda.hpp"
#include "gpu/testing/fake_libraries.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>

namespace vram::doctor {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class Machine {
 public:
  explicit Machine(const std::string& name) : tree_(data_path("doctor/") + name + ".tree") {}
  [[nodiscard]] const gpu::RecordedTree& tree() const { return tree_; }
  [[nodiscard]] std::string root() const {
    return std::filesystem::path(tree_.roots().sys).parent_path();
  }
  [[nodiscard]] MachineFacts facts(Pid pid = {}) const { return collect(root(), pid); }

 private:
  gpu::RecordedTree tree_;
};

std::vector<std::string> ids_of(const MachineFacts& facts) {
  std::vector<std::string> ids;
  for (const Finding& finding : examine(facts).findings) ids.push_back(finding.id);
  return ids;
}

TEST(Collect, TheDriverOfAServer) {
  const Machine server("server");
  const NvidiaFacts nvidia = server.facts().nvidia;
  EXPECT_TRUE(nvidia.has_module);
  EXPECT_TRUE(nvidia.has_uvm_module);
  EXPECT_EQ(nvidia.module_version, "580.95.05");
  EXPECT_EQ(nvidia.is_open, true);
  ASSERT_EQ(nvidia.nodes.size(), 3U) << "nvidia-caps is none";
  EXPECT_EQ(nvidia.nodes[0].path, "/dev/nvidia-uvm");
  EXPECT_TRUE(nvidia.nodes[0].exists);
  ASSERT_EQ(nvidia.libraries.size(), 2U) << "links are none";
  EXPECT_EQ(nvidia.libraries[0].version, "580.95.05");
  EXPECT_EQ(nvidia.libraries[1].name, "libnvidia-ml");
  EXPECT_EQ(nvidia.libraries[1].version, "535.54.03");
}

TEST(Collect, TheBusOfAServer) {
  const std::vector<PciGpu> gpus = Machine("server").facts().gpus;
  ASSERT_EQ(gpus.size(), 2U) << "a bridge is no GPU";
  EXPECT_EQ(gpus[0].pci_id, "0000:19:00.0");
  EXPECT_EQ(gpus[0].chip, 0x2335U);
  EXPECT_EQ(gpus[0].driver, "nvidia");
  EXPECT_FALSE(gpus[0].is_gone);
  EXPECT_EQ(gpus[1].vendor, gpu::Vendor::kAmd) << "an accelerator is one";
  EXPECT_EQ(gpus[1].driver, "");
}

TEST(Collect, TheRestOfAServer) {
  const MachineFacts facts = Machine("server").facts();
  EXPECT_EQ(facts.platform.kernel, "6.8.0-45-generic");
  EXPECT_FALSE(facts.platform.is_wsl);
  EXPECT_EQ(facts.platform.memory_bytes, uint64_t{1'056'000'000} * kKiB);
  EXPECT_EQ(facts.platform.swap_bytes, 0U);
  EXPECT_EQ(facts.platform.overcommit, 0U);
  EXPECT_EQ(facts.platform.ptrace_scope, 1U);
  EXPECT_TRUE(facts.platform.hides_processes);
  EXPECT_TRUE(facts.platform.has_infiniband);
  EXPECT_TRUE(facts.platform.has_persistenced);
  EXPECT_EQ(facts.platform.has_display, false);
  EXPECT_EQ(facts.process.uid, 1000U);
  EXPECT_EQ(facts.process.limits.address_space_bytes, std::nullopt) << "unlimited";
  EXPECT_EQ(facts.process.limits.locked_bytes, 65'536U);
  EXPECT_EQ(facts.process.limits.open_files, 1024U);
  EXPECT_EQ(facts.process.limits.max_open_files, 1'048'576U);
  EXPECT_FALSE(facts.container.is_inside);
  EXPECT_EQ(facts.container.is_host_pid_namespace, true);
  EXPECT_EQ(facts.container.memory_limit_bytes, 64 * kGiB) << "of the group above";
  EXPECT_EQ(facts.mps.processes, 1U);
}

TEST(Collect, TheKernelsLog) {
  const auto xids = Machine("server").facts().xids;
  ASSERT_TRUE(xids);
  ASSERT_EQ(xids->size(), 2U) << "programs' own lines don't count";
  EXPECT_EQ((*xids)[0].xid, 31U);
  EXPECT_EQ((*xids)[0].count, 2U);
  EXPECT_THAT((*xids)[0].last, HasSubstr("name=other"));
  EXPECT_EQ((*xids)[1].xid, 79U);
  EXPECT_EQ((*xids)[1].pci_id, "0000:19:00");
}

TEST(Collect, APodWithoutGpu) {
  const MachineFacts facts = Machine("container").facts();
  EXPECT_TRUE(facts.container.is_inside);
  EXPECT_EQ(facts.container.runtime, "kubernetes");
  EXPECT_EQ(facts.container.is_host_pid_namespace, false);
  EXPECT_EQ(facts.container.memory_limit_bytes, 8 * kGiB);
  EXPECT_EQ(facts.nvidia.module_version, "535.54.03");
  EXPECT_EQ(facts.nvidia.is_open, false);
  EXPECT_EQ(facts.platform.kernel, "5.15.0-1066-aws");
  EXPECT_EQ(facts.xids, std::nullopt) << "there is no log here";
  EXPECT_THAT(ids_of(facts), Contains("container.kubernetes_no_gpu"));
}

TEST(Collect, WslAndJetson) {
  const MachineFacts wsl = Machine("wsl").facts();
  EXPECT_TRUE(wsl.platform.is_wsl && wsl.platform.has_dxg && wsl.platform.has_wsl_library);
  EXPECT_THAT(ids_of(wsl), Contains("platform.wsl_no_process_memory"));
  const MachineFacts jetson = Machine("jetson").facts();
  EXPECT_EQ(jetson.platform.board, "NVIDIA Jetson");
  EXPECT_THAT(ids_of(jetson), Contains("platform.unified_memory"));
  EXPECT_THAT(ids_of(jetson), Not(Contains("platform.no_gpu")));
}

TEST(Collect, ALaptopWithNouveau) {
  const Machine laptop("laptop");
  laptop.tree().write("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
                      std::string("\x06\0\0\0\x01", 5));
  // Asleep, its registers are not to be read, whatever is in them.
  laptop.tree().write("sys/bus/pci/devices/0000:01:00.0/config", "\xff\xff\xff\xff");
  const MachineFacts facts = laptop.facts();
  EXPECT_EQ(facts.platform.secure_boot, true);
  EXPECT_EQ(facts.platform.has_display, true);
  EXPECT_TRUE(facts.nvidia.has_module_source);
  EXPECT_FALSE(facts.nvidia.has_module_file) << "it is another kernel's";
  EXPECT_EQ(facts.gpus.at(0).driver, "nouveau");
  EXPECT_FALSE(facts.gpus.at(0).is_gone);
  EXPECT_THAT(ids_of(facts), Contains("driver.nouveau"));
  laptop.tree().write("lib/modules/6.11.0-9-generic/updates/dkms/nvidia.ko.zst", "");
  EXPECT_TRUE(laptop.facts().nvidia.has_module_file);
}

TEST(Collect, AGpuThatFellOff) {
  const Machine server("server");
  server.tree().write("sys/bus/pci/devices/0000:19:00.0/config", "\xff\xff\xff\xff\xff");
  EXPECT_TRUE(server.facts().gpus.at(0).is_gone);
  EXPECT_THAT(ids_of(server.facts()), Contains("driver.gpu_fell_off"));
  server.tree().write("sys/bus/pci/devices/0000:19:00.0/config", "\xde\x10\x35\x23");
  EXPECT_FALSE(server.facts().gpus.at(0).is_gone);
}

TEST(Collect, TheEnvironmentOfThisProcessOrAnother) {
  const Machine server("server");
  using namespace std::string_literals;
  EXPECT_FALSE(server.facts().process.is_environment_known);
  server.tree().write("proc/self/environ", "A=1\0LD_PRELOAD=/etc/group:/no.so:libm.so\0=x\0B"s);
  server.tree().write("proc/4211/environ",
                      "CUDA_MPS_PIPE_DIRECTORY=/run/mps\0B=a=b\0LD_PRELOAD=/no.so\0"s);
  server.tree().write("run/mps/control", "");
  const ProcessFacts own = server.facts().process;
  EXPECT_TRUE(own.is_environment_known);
  EXPECT_EQ(own.environment.size(), 2U) << "what is no variable is left out";
  EXPECT_EQ(own.environment.at("A"), "1");
  ASSERT_EQ(own.preloaded.size(), 3U);
  EXPECT_TRUE(own.preloaded[0].exists);
  EXPECT_FALSE(own.preloaded[1].exists);
  EXPECT_TRUE(own.preloaded[2].exists) << "the loader looks for it";
  const MachineFacts other = server.facts(4211);
  EXPECT_EQ(other.process.environment.at("B"), "a=b");
  EXPECT_TRUE(other.process.preloaded.at(0).exists) << "it may be in a container";
  EXPECT_EQ(other.mps.pipe_folder, "/run/mps");
  EXPECT_TRUE(other.mps.has_pipe);
}

TEST(Collect, NodesSayWhoMayOpenThem) {
  const Machine server("server");
  chmod((server.root() + "/dev/nvidia0").c_str(), 0640);
  const auto nodes = server.facts().nvidia.nodes;
  const auto node = std::ranges::find(nodes, "/dev/nvidia0", &DeviceNode::path);
  ASSERT_NE(node, nodes.end());
  EXPECT_EQ(node->mode, 0640U);
  if (getgid() == 0) {
    EXPECT_EQ(node->group, "root");
  }
}

TEST(Collect, AnEmptyMachineIsNoTrouble) {
  const gpu::RecordedTree empty;
  const MachineFacts facts = collect(std::filesystem::path(empty.roots().sys).parent_path());
  EXPECT_THAT(ids_of(facts),
              ::testing::ElementsAre("platform.no_gpu", "permissions.shared_memory"));
}

// Files may be anything: whatever is in them, facts come out, and findings of them.
TEST(Collect, HostileFilesAreNoTrouble) {
  for (const std::string& bytes :
       {std::string(1 << 20, 'A'), std::string("\0\xff\x1b[2J\n", 7), std::string("\n\n\n"),
        std::string("99999999999999999999999 -1 0x")}) {
    const Machine server("server");
    for (const auto& file : server.tree().files()) std::ofstream(file) << bytes;
    EXPECT_NO_THROW(ids_of(server.facts()));
  }
}

TEST(Xids, AreBounded) {
  std::string log;
  for (int xid = 0; xid < 5000; ++xid)
    log += "4,1,1,-;NVRM: Xid (PCI:0000:19:00): " + std::to_string(xid) + ", x\n";
  EXPECT_EQ(xids_in(log).size(), 1000U);
}

constexpr auto kLong = std::chrono::seconds(100);

TEST(Libraries, WorkOrSayWhy) {
  MachineFacts facts;
  query_libraries(facts, {gpu::testing::fake_nvml("3"), fake_cuda_path(), kLong});
  EXPECT_EQ(facts.nvidia.nvml.devices, 2U);
  EXPECT_EQ(facts.nvidia.nvml.error, 0);
  EXPECT_TRUE(facts.nvidia.cuda.was_asked);
  EXPECT_EQ(facts.nvidia.cuda.load_error, "");
  EXPECT_GT(facts.nvidia.cuda.devices.value_or(0), 0U);
  query_libraries(facts, {"/nowhere/libnvidia-ml.so.1", "/nowhere/libcuda.so.1", kLong});
  EXPECT_THAT(facts.nvidia.nvml.load_error, HasSubstr("/nowhere"));
  EXPECT_THAT(facts.nvidia.cuda.load_error, HasSubstr("/nowhere"));
  EXPECT_EQ(facts.nvidia.nvml.devices, std::nullopt);
}

TEST(Libraries, ErrorsComeWithTheirNumbers) {
  for (const int error : {4, 9, 15, 18, 999}) {
    const gpu::testing::Environment failing("FAKE_NVML_FAIL",
                                            "nvmlInit_v2=" + std::to_string(error));
    MachineFacts facts;
    query_libraries(facts, {gpu::testing::fake_nvml("3"), "/nowhere/libcuda.so.1", kLong});
    EXPECT_EQ(facts.nvidia.nvml.error, error);
    EXPECT_THAT(facts.nvidia.nvml.error_text, HasSubstr(std::to_string(error)));
    EXPECT_EQ(facts.nvidia.nvml.devices, std::nullopt);
  }
}

TEST(Libraries, OneThatHangsIsLeftBehind) {
  const gpu::testing::Scenario scenario("devices 1\nhang nvmlInit_v2 3000\n");
  MachineFacts facts;
  query_libraries(facts,
                  {gpu::testing::fake_nvml("3"), fake_cuda_path(), std::chrono::milliseconds(10)});
  EXPECT_TRUE(facts.nvidia.nvml.is_hanging);
  EXPECT_FALSE(facts.nvidia.cuda.was_asked);
  EXPECT_THAT(ids_of(facts), Contains("driver.hangs"));
}

}  // namespace
}  // namespace vram::doctor
