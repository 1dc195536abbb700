// The process table on trees that look like /proc: processes of every kind of place, what may not
// be read, and what comes and goes.
#include "watch/process_table.hpp"

#include "watch/testing/processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace vram::watch {
namespace {

using testing::FakeProcess;
using testing::ProcTree;
using std::string_literals::operator""s;

const std::string kContainerId(64, 'a');
const std::string kPodCgroup =
    "0::/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice/cri-containerd-" +
    kContainerId + ".scope\n";
constexpr const char* kSpaceFolder = "root/var/run/secrets/kubernetes.io/serviceaccount";

class ProcessTableTest : public ::testing::Test {
 protected:
  ProcessFacts facts_of(const FakeProcess& process) {
    tree_.put(process);
    return table_.facts(process.pid);
  }
  ProcTree tree_;
  ProcessTable table_{tree_.root()};
};

TEST_F(ProcessTableTest, AProcessOfAUserIsDescribed) {
  const ProcessFacts facts = facts_of({.pid = 70, .parent_pid = 69, .start_ticks = 12345});
  EXPECT_EQ(facts.pid, 70U);
  EXPECT_EQ(facts.parent_pid, 69U);
  EXPECT_EQ(facts.start_ticks, 12345U);
  EXPECT_EQ(facts.uid, 0U);
  EXPECT_EQ(facts.user, "root");
  EXPECT_EQ(facts.command, "python3 train.py");
  EXPECT_FALSE(facts.container.has_value());
  EXPECT_FALSE(facts.pod.has_value());
  EXPECT_FALSE(facts.slurm_job.has_value());
}

// In a container's pid namespace: the driver may mean a process of the machine.
TEST_F(ProcessTableTest, ANumberOfTheMachineIsNoProcessOfTheContainer) {
  ProcessTable table(tree_.root(), CommandLines::kFull, ProcessTable::Numbers::kPerhapsOthers);
  tree_.put({.pid = 70});
  tree_.put({.pid = 71});
  std::filesystem::create_directories(tree_.path(70, "fd"));
  std::filesystem::create_symlink("/dev/null", tree_.path(70, "fd/0"));
  const ProcessFacts& stranger = *table.lookup_named(70).facts;
  EXPECT_EQ(stranger.pid, 70U);
  EXPECT_FALSE(stranger.start_ticks.has_value()) << "so nobody signals it";
  EXPECT_FALSE(stranger.command.has_value());
  EXPECT_FALSE(table.lookup_named(71).facts->command.has_value()) << "its files may not be seen";
  EXPECT_EQ(table.facts(70).command, "python3 train.py") << "asked for by its own number";

  std::filesystem::create_symlink("/dev/nvidia3", tree_.path(70, "fd/7"));
  EXPECT_EQ(table.lookup_named(70).facts->command, "python3 train.py");
  tree_.remove(70);
  tree_.put({.pid = 70, .start_ticks = 9000});  // another process
  table.begin_tick();
  EXPECT_FALSE(table.lookup_named(70).facts->command.has_value());
  EXPECT_EQ(table.lookup_named(99).facts->pid, 99U);
  EXPECT_EQ(table_.lookup_named(70).facts->start_ticks, 9000U) << "where the numbers are the same";
}

TEST_F(ProcessTableTest, ACommandObeysNobodysTerminal) {
  EXPECT_EQ(facts_of({.pid = 1, .cmdline = "a\0\x1b]0;owned\x07\0b\nc\xff\xc3\0"s}).command,
            "a \\x1b]0;owned\\x07 b c\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(facts_of({.pid = 2, .cmdline = "na\xC3\xAFve\0\0\0"s}).command, "na\xC3\xAFve");
  EXPECT_EQ(facts_of({.pid = 3, .name = "nv_\x1b[queue", .cmdline = ""}).command,
            "[nv_\\x1b[queue]");
  EXPECT_EQ(facts_of({.pid = 4, .cmdline = std::nullopt}).command, std::nullopt);
}

TEST_F(ProcessTableTest, OfACommandOnlyWhatMayBeShownIsKept) {
  tree_.put({.pid = 5, .cmdline = "/opt/py thon/python3\0train.py\0--key\0s3cret\0"s});
  tree_.put({.pid = 6, .name = "kworker/0", .cmdline = ""});
  ProcessTable names(tree_.root(), CommandLines::kName);
  EXPECT_EQ(names.facts(5).command, "py");
  EXPECT_EQ(names.facts(6).command, "[kworker/0]");
  ProcessTable off(tree_.root(), CommandLines::kOff);
  EXPECT_EQ(off.facts(5).command, std::nullopt);
}

TEST_F(ProcessTableTest, ALongCommandIsCutBetweenCharacters) {
  // 4095 bytes, then one of three: the bound of 4096 lies inside it.
  const auto facts = facts_of({.pid = 1, .cmdline = std::string(4095, 'x') + "\u20ac and more"});
  EXPECT_EQ(facts.command, std::string(4095, 'x') + "…");
}

TEST_F(ProcessTableTest, ContainersPodsAndJobsAreTold) {
  const auto docker =
      facts_of({.pid = 1, .cgroup = "0::/system.slice/docker-" + kContainerId + ".scope\n"});
  ASSERT_TRUE(docker.container.has_value());
  EXPECT_EQ(docker.container->runtime, "docker");
  const auto slurm = facts_of({.pid = 2,
                               .cgroup = "9:memory:/slurm/uid_0/job_42/step_0\n",
                               .environment = "SLURM_JOB_ID=41\0"s});
  EXPECT_EQ(slurm.slurm_job, "42");
  EXPECT_EQ(facts_of({.pid = 3, .environment = "A=1\0SLURM_JOB_ID=7\0"s}).slurm_job, "7");
  EXPECT_EQ(facts_of({.pid = 4, .environment = "SLURM_JOB_ID=7\x1b\0"s}).slurm_job, std::nullopt);
  // Cut off: 7 may be the beginning of 71.
  EXPECT_EQ(facts_of({.pid = 5, .environment = "SLURM_JOB_ID=7"}).slurm_job, std::nullopt);
}

TEST_F(ProcessTableTest, APodHasItsNameAndItsNamespace) {
  tree_.write(tree_.path(9, std::string(kSpaceFolder) + "/..data/namespace"), "research");
  std::filesystem::create_symlink("..data/namespace",
                                  tree_.path(9, std::string(kSpaceFolder) + "/namespace"));
  const auto facts =
      facts_of({.pid = 9, .cgroup = kPodCgroup, .environment = "HOSTNAME=train-0\0"s});
  ASSERT_TRUE(facts.pod.has_value());
  EXPECT_EQ(facts.pod->uid, "11111111-2222-3333-4444-555555555555");
  EXPECT_EQ(facts.pod->name, "train-0");
  EXPECT_EQ(facts.pod->space, "research");
  EXPECT_EQ(facts.container->id, kContainerId);
}

TEST_F(ProcessTableTest, TheMachinesNameIsNoPods) {
  tree_.write(tree_.root() + "/sys/kernel/hostname", "node7\n");
  const auto facts = facts_of({.pid = 9, .cgroup = kPodCgroup, .environment = "HOSTNAME=node7\0"s});
  ASSERT_TRUE(facts.pod.has_value());
  EXPECT_EQ(facts.pod->name, std::nullopt);
}

// A container may put what it likes into its file system.
TEST_F(ProcessTableTest, AContainerLeadsTheReaderNowhere) {
  const std::string secret = tree_.root() + "/secret";
  tree_.write(secret, "secret");
  const auto space_with = [&](uint32_t pid, const auto& put) {
    std::filesystem::create_directories(tree_.path(pid, kSpaceFolder));
    put(tree_.path(pid, std::string(kSpaceFolder) + "/namespace"));
    return facts_of({.pid = pid, .cgroup = kPodCgroup}).pod->space;
  };
  EXPECT_EQ(space_with(1, [&](const auto& at) { std::filesystem::create_symlink(secret, at); }),
            std::nullopt);
  const std::string outside = "../../../../../../../../secret";
  EXPECT_EQ(space_with(2, [&](const auto& at) { std::filesystem::create_symlink(outside, at); }),
            std::nullopt);
  EXPECT_EQ(space_with(3, [](const auto& at) { mkfifo(at.c_str(), 0600); }), std::nullopt);
  EXPECT_EQ(space_with(4, [&](const auto& at) { tree_.write(at, "a\x1b[2J"); }), std::nullopt);
  EXPECT_EQ(space_with(5, [&](const auto& at) { tree_.write(at, std::string(9999, 'a')); }),
            std::nullopt);
  EXPECT_EQ(space_with(6, [&](const auto& at) { tree_.write(at, "fine"); }), "fine");
}

TEST_F(ProcessTableTest, AProcessThatIsNotToBeSeenIsAPid) {
  const ProcessFacts facts = table_.facts(4711);
  EXPECT_EQ(facts.pid, 4711U);
  EXPECT_EQ(facts.start_ticks, std::nullopt);
  EXPECT_EQ(facts.command, std::nullopt);
  EXPECT_EQ(facts.uid, std::nullopt);
}

TEST_F(ProcessTableTest, WhatMayNotBeReadIsUnknown) {
  tree_.put({.pid = 5, .cgroup = std::nullopt, .environment = std::nullopt});
  tree_.write(tree_.path(5, "status"), "Name:\tpython3\nUid:\t10");
  const KnownProcess& process = table_.lookup(5);
  EXPECT_EQ(process.facts->uid, std::nullopt);
  EXPECT_EQ(process.facts->user, std::nullopt);
  EXPECT_FALSE(process.cuda.is_known);
  EXPECT_EQ(process.facts->command, "python3 train.py");
}

TEST_F(ProcessTableTest, AUserWithoutANameIsANumber) {
  const auto facts = facts_of({.pid = 5, .uid = 3999999999});
  EXPECT_EQ(facts.uid, 3999999999U);
  EXPECT_EQ(facts.user, std::nullopt);
}

// As where a directory is away: the sample continues without the name, and has it later.
TEST_F(ProcessTableTest, AUserWhoseNameIsLongInComingIsNamedLater) {
  std::promise<void> comes;
  ProcessTable table(tree_.root(), CommandLines::kFull, ProcessTable::Numbers::kTheSame,
                     {.ask =
                          [came = comes.get_future().share()](uint32_t) {
                            came.wait();
                            return std::optional<std::string>("ann");
                          },
                      .timeout = std::chrono::milliseconds(1)});
  tree_.put({.pid = 5, .uid = 1001});
  EXPECT_EQ(table.facts(5).user, std::nullopt);
  EXPECT_EQ(table.facts(5).command, "python3 train.py");
  comes.set_value();
  for (int i = 0; i < 60'000 && !table.facts(5).user; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(table.facts(5).user, "ann");
}

TEST_F(ProcessTableTest, KnownProcessesAreNotReadAgain) {
  EXPECT_EQ(facts_of({.pid = 5}).command, "python3 train.py");
  tree_.write(tree_.path(5, "cmdline"), "unseen");
  EXPECT_EQ(table_.facts(5).command, "python3 train.py");
  // Another process of the same pid, and the same one that runs another program.
  EXPECT_EQ(facts_of({.pid = 5, .start_ticks = 6000, .cmdline = "later"}).command, "later");
  EXPECT_EQ(facts_of({.pid = 5, .name = "other", .start_ticks = 6000, .cmdline = "x"}).command,
            "x");
  EXPECT_EQ(facts_of({.pid = 5, .name = "other", .parent_pid = 9, .start_ticks = 6000}).parent_pid,
            9U);
  tree_.remove(5);
  EXPECT_EQ(table_.facts(5).command, std::nullopt);
}

TEST_F(ProcessTableTest, WhatNobodyAsksForIsForgotten) {
  tree_.put({.pid = 5});
  tree_.put({.pid = 6});
  (void)table_.lookup(5);
  (void)table_.lookup(6);
  table_.forget_unused();
  (void)table_.lookup(6);
  table_.forget_unused();
  EXPECT_EQ(table_.size(), 1U);
  EXPECT_EQ(table_.facts(6).command, "python3 train.py");
}

TEST_F(ProcessTableTest, WhatCudaWasToldIsKnown) {
  tree_.put({.pid = 5, .environment = "CUDA_VISIBLE_DEVICES=2,0\0CUDA_DEVICE_ORDER=PCI_BUS_ID\0"s});
  EXPECT_EQ(table_.lookup(5).cuda.visible_devices, "2,0");
  EXPECT_EQ(table_.lookup(5).cuda.device_order, "PCI_BUS_ID");
  tree_.put({.pid = 6, .environment = "NOT_CUDA_VISIBLE_DEVICES=2\0CUDA_VISIBLE_DEVICES_=1\0"s});
  EXPECT_TRUE(table_.lookup(6).cuda.is_known);
  EXPECT_EQ(table_.lookup(6).cuda.visible_devices, std::nullopt);
}

TEST(ProcessTable, TheKernelsOwnTreeIsRead) {
  ProcessTable table;
  const ProcessFacts& facts = table.facts(static_cast<uint32_t>(getpid()));
  EXPECT_EQ(facts.parent_pid, static_cast<uint32_t>(getppid()));
  EXPECT_EQ(facts.uid, geteuid());
  ASSERT_TRUE(facts.command.has_value());
  EXPECT_THAT(*facts.command, ::testing::HasSubstr("watch_test"));
  EXPECT_TRUE(table.lookup(static_cast<uint32_t>(getpid())).cuda.is_known);
}

}  // namespace
}  // namespace vram::watch
