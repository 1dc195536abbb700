// Finds the container, pod and Slurm job of a process from the text of its /proc/<pid>/cgroup
// (version 1 and 2). A pure function; its results contain only hexadecimal digits and numbers,
// whatever the text contains.
//
//     docker       …/docker/<id>                              …/docker-<id>.scope
//     containerd   …/cri-containerd-<id>.scope                …:cri-containerd:<id>
//     podman       …/libpod-<id>.scope                        …/libpod-payload-<id>
//     cri-o        …/crio-<id>.scope
//     unknown      …/<id>, as below /kubepods/burstable/pod<uid>/
//     Kubernetes   …/pod<uid>/…                               …/kubepods-burstable-pod<uid>.slice/…
//     Slurm        …/slurm/uid_1000/job_7/step_0              …/slurmstepd.scope/job_7/step_0
#pragma once

#include "watch/snapshot.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace vram::watch {

// Of containers (pods, jobs) within each other the innermost.
struct Placement {
  std::optional<Container> container;
  std::optional<std::string> pod_uid;
  std::optional<std::string> slurm_job;
};

[[nodiscard]] Placement placement_of(std::string_view cgroup_text);

}  // namespace vram::watch
