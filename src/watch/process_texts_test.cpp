// Control groups as the runtimes write them, whose ids are known; and texts that only look so.
#include "watch/process_texts.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace vram::watch {
namespace {

const std::string kId = "3f4a" + std::string(56, '0') + "9c1d";
const std::string kOther(64, 'e');
constexpr const char* kPod = "8d5b7c52-0b9a-4a3c-9d8e-5f1f2a3b4c5d";
constexpr const char* kPodUnit = "pod8d5b7c52_0b9a_4a3c_9d8e_5f1f2a3b4c5d.slice";

void expect_container(const std::string& text, const std::string& runtime, const std::string& id) {
  const auto container = placement_of(text).container;
  ASSERT_TRUE(container.has_value()) << text;
  EXPECT_EQ(container->runtime, runtime) << text;
  EXPECT_EQ(container->id, id) << text;
}

void expect_nothing(const std::string& text) {
  const Placement placement = placement_of(text);
  EXPECT_FALSE(placement.container.has_value()) << text;
  EXPECT_FALSE(placement.pod_uid.has_value()) << text;
  EXPECT_FALSE(placement.slurm_job.has_value()) << text;
}

TEST(Container, EachRuntimeIsKnownByItsPath) {
  expect_container("0::/system.slice/docker-" + kId + ".scope\n", "docker", kId);
  expect_container("0::/docker/" + kId + "\n", "docker", kId);
  expect_container("0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId +
                       ".scope/container\n",
                   "podman", kId);
  expect_container("0::/system.slice/a.service/libpod-payload-" + kId + "\n", "podman", kId);
  expect_container("0::/machine.slice/crio-" + kId + ".scope\n", "cri-o", kId);
  expect_container("0::/system.slice/nerdctl-" + kId + ".scope\n", "containerd", kId);
  expect_container("0::/../../docker-" + kId + ".scope (deleted)", "docker", kId);
  expect_container("0::/ecs/task/" + kId + "\n", "", kId);
}

TEST(Container, PodsAreKnownWithBothDriversOfControlGroups) {
  const std::string slices = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-";
  const std::string by_systemd = slices + kPodUnit + "/cri-containerd-" + kId + ".scope\n";
  expect_container(by_systemd, "containerd", kId);
  EXPECT_EQ(placement_of(by_systemd).pod_uid, kPod);

  const std::string by_files = std::string("0::/kubepods/besteffort/pod") + kPod + "/" + kId;
  expect_container(by_files, "", kId);
  EXPECT_EQ(placement_of(by_files).pod_uid, kPod);

  // What containerd makes of systemd's names when it is set to write files.
  const std::string mixed = std::string("0::/system.slice/containerd.service/kubepods-") +
                            kPodUnit + ":cri-containerd:" + kId;
  expect_container(mixed, "containerd", kId);
  EXPECT_EQ(placement_of(mixed).pod_uid, kPod);

  const std::string static_pod(32, '7');
  EXPECT_EQ(placement_of("0::/kubepods/pod" + static_pod + "/" + kId).pod_uid, static_pod);
}

TEST(Container, OfNestedOnesTheInnermostCounts) {
  // Kubernetes in a Docker container (kind), and Docker in Docker.
  const std::string kind = "0::/docker/" + kOther + "/kubelet.slice/kubelet-kubepods.slice/" +
                           "kubelet-kubepods-" + kPodUnit + "/cri-containerd-" + kId + ".scope\n";
  expect_container(kind, "containerd", kId);
  EXPECT_EQ(placement_of(kind).pod_uid, kPod);
  expect_container("0::/docker/" + kOther + "/docker/" + kId, "docker", kId);
}

TEST(Container, OfVersionOneTheDeepestHierarchyCounts) {
  const std::string text = "12:cpuset:/docker/" + kOther + "\n11:memory:/docker/" + kOther +
                           "/docker/" + kId + "\n2:cpu,cpuacct:/\n1:name=systemd:/docker/" +
                           kOther + "\n0::/system.slice/docker.service\n";
  expect_container(text, "docker", kId);
  EXPECT_EQ(placement_of("9:devices:/slurm/uid_1000/job_4711/step_0/task_0\n0::/\n").slurm_job,
            "4711");
}

TEST(Container, ASlurmJobIsBelowSlurm) {
  EXPECT_EQ(
      placement_of("0::/system.slice/slurmstepd.scope/job_88/step_batch/user/task_0").slurm_job,
      "88");
  EXPECT_EQ(placement_of("4:memory:/slurm_node7/uid_0/job_5/step_extern\n").slurm_job, "5");
  expect_nothing("0::/user.slice/job_88/step_0\n");
  expect_nothing("0::/slurm/job_88x\n");
  expect_nothing("0::/slurm/job_\n");
}

TEST(Container, OtherPathsAreNone) {
  expect_nothing("");
  expect_nothing("0::/\n");
  expect_nothing("0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-kitty-71.scope\n");
  expect_nothing("0::/system.slice/docker.service\n");
  expect_nothing("0::/docker/" + kId.substr(1) + "\n");
  expect_nothing("0::/docker/" + kId + "0\n");
  expect_nothing("0::/machine.slice/libpod-conmon-" + kId + ".scope\n");
  expect_nothing("0::/machine.slice/crio-conmon-" + kId + ".scope\n");
  expect_nothing("0::/machine.slice/machine-libpod_pod_" + kId + ".slice\n");
  expect_nothing("0::/tripod" + std::string(36, 'a') + "/x\n");
  expect_nothing("\n\n:::\n::::///\n");
}

// Pieces of paths at random: what comes out is an id, a uid and a number, whatever goes in.
TEST(Container, NothingButDigitsComesOut) {
  const std::string pieces[] = {"0::",        "/",
                                "docker",     "-",
                                ".scope",     kId,
                                ":",          "\n",
                                "pod",        kPod,
                                "kubepods-",  ".slice",
                                "slurm",      "job_",
                                "42",         "\x1b[2J",
                                "libpod-",    "cri-containerd",
                                " (deleted)", std::string(1, '\0')};
  std::mt19937 random(7);
  size_t containers = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string text;
    for (auto count = random() % 12; count > 0; --count) {
      text += pieces[random() % std::size(pieces)];
    }
    const Placement placement = placement_of(text);
    if (placement.container) {
      EXPECT_EQ(placement.container->id, kId);
    }
    if (placement.pod_uid) {
      EXPECT_EQ(placement.pod_uid->find_first_not_of("0123456789abcdef-"), std::string::npos);
    }
    if (placement.slurm_job) {
      EXPECT_EQ(placement.slurm_job->find_first_not_of("42"), std::string::npos);
    }
    containers += placement.container ? 1 : 0;
  }
  EXPECT_GT(containers, 100U);
}

}  // namespace
}  // namespace vram::watch
