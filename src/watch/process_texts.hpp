// Reads and parses the files of /proc/<pid>: parsing is pure. A process chooses its own command
// line and environment; results for a screen are valid UTF-8 without control characters.
#pragma once

#include "watch/snapshot.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vram::watch {

// The arguments between spaces; "[name]" of a kernel thread or a dead process, which have none.
// is_cut: the text is a longer one's beginning.
[[nodiscard]] std::string command_of(std::string_view cmdline, std::string_view name, bool is_cut);
// How much of a command line others get to see: arguments may hold secrets.
enum class CommandLines : uint8_t { kOff, kName, kFull };
// The program's name alone: "/usr/bin/python3 train.py --key k" -> "python3".
[[nodiscard]] std::string program_name(std::string_view command);
[[nodiscard]] std::optional<std::string> shown_command(std::optional<std::string> command,
                                                       CommandLines shown);
// With whose rights the process acts, from /proc/<pid>/status.
[[nodiscard]] std::optional<uint32_t> effective_uid(std::string_view status);
// Returns a variable's value in /proc/<pid>/environ; nothing if it is truncated.
[[nodiscard]] std::optional<std::string_view> variable_in(std::string_view environment,
                                                          std::string_view name);
// As Kubernetes lets pods and namespaces be named: lower-case letters, digits, '-' and '.'.
[[nodiscard]] bool is_kubernetes_name(std::string_view text);

// Reading files about and of other processes: never more than a bound, and never led astray. Any
// thread.

struct FileStart {
  std::string text;
  bool is_cut = false;  // the file may be longer
};

// Nothing: it can't be opened or read.
[[nodiscard]] std::optional<FileStart> read_start(const std::string& path, size_t max_bytes);

// Reads a file in another process's file system, by its path there. The owner of that file system
// may have placed links and pipes in it: links are followed as that process would follow them, so
// none leads to a file of the host, and anything but a regular file is ignored. Needs Linux 5.6.
[[nodiscard]] std::optional<FileStart> read_inside(const std::string& root_folder,
                                                   const std::string& path, size_t max_bytes);

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
//
// Of containers (pods, jobs) within each other the innermost.
struct Placement {
  std::optional<Container> container;
  std::optional<std::string> pod_uid;
  std::optional<std::string> slurm_job;
};

[[nodiscard]] Placement placement_of(std::string_view cgroup_text);

}  // namespace vram::watch
