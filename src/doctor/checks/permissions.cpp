// May this user open the devices, and see other processes?
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "doctor/checks/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace vram::doctor {
namespace {

std::string described(const DeviceNode& node) {
  return trf("{}: mode {:04o}, group {}", node.path, node.mode.value_or(0),
             node.group.value_or("unknown"));
}

Finding nodes_missing(const MachineFacts& facts) {
  return {
      "permissions.nodes_missing",
      Severity::kBad,
      tr("the driver is loaded, and its devices (/dev/nvidiactl, /dev/nvidia0) are not there"),
      tr("Programs open them to reach the GPU. Root's first use of the driver makes them; another "
         "user's needs nvidia-modprobe, which is not installed or not set-user-id."),
      {tr("make them; installed properly, nvidia-modprobe does it at each start"),
       {as_root(facts, "nvidia-modprobe -c 0 -u"), as_root(facts, "apt install nvidia-modprobe")}}};
}

Finding uvm_missing(const MachineFacts& facts) {
  Finding finding{
      "permissions.uvm_missing",
      Severity::kBad,
      tr("/dev/nvidia-uvm is not there"),
      tr("CUDA opens it for every program, so none starts, although nvidia-smi works."),
      {tr("load the module and make the device"), {as_root(facts, "nvidia-modprobe -u -c 0")}}};
  if (facts.container.is_inside)
    finding.repair = {tr("make it on the host, then restart the container with it"),
                      {"sudo nvidia-modprobe -u -c 0",
                       "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …"}};
  return finding;
}

// The way in that the file's group opens, or opening it to everybody.
Repair let_in(const MachineFacts& facts, const DeviceNode& node) {
  const std::string group = node.group.value_or("root");
  const bool group_may = (node.mode.value_or(0) & 0060U) == 0060U && group != "root";
  if (facts.container.is_inside)
    return {tr("give the container's user the group of the device on the host"),
            {fmt::format("docker run --group-add $(getent group {} | cut -d: -f3) …", group)}};
  if (group_may)
    return {tr("join the group, then log in again"),
            {as_root(facts, fmt::format("usermod -aG {} $USER", group))}};
  return {tr("open it to everybody until the next start; options in /etc/modprobe.d "
             "(NVreg_DeviceFileMode) or a udev rule make it last"),
          {as_root(facts, "chmod a+rw " + node.path)}};
}

Finding denied(const MachineFacts& facts, const DeviceNode& node, std::string id,
               std::string without) {
  return {std::move(id),      Severity::kBad,      trf("this user may not open {}", node.path),
          std::move(without), let_in(facts, node), {described(node)}};
}

void add_nvidia(const MachineFacts& facts, Findings& findings) {
  const bool is_inside = facts.container.is_inside;
  if (facts.platform.is_wsl || !facts.nvidia.has_module) return;
  if (!has_nodes(facts)) {
    // In a container they are to be given to it: check_container says how.
    if (!is_inside && !nvml_works(facts)) findings.push_back(nodes_missing(facts));
    return;
  }
  if (node_of(facts, "/dev/nvidia-uvm") == nullptr && !cuda_works(facts))
    findings.push_back(uvm_missing(facts));
  const auto node = std::ranges::find(facts.nvidia.nodes, EACCES, &DeviceNode::refused);
  if (node != facts.nvidia.nodes.end())
    findings.push_back(denied(facts, *node, "permissions.nvidia_denied",
                              tr("Without it neither CUDA nor NVML works for this user.")));
}

void add_drm_access(const MachineFacts& facts, Findings& findings) {
  for (const DrmFacts& card : facts.drm) {
    if (card.node.refused != EACCES) continue;
    findings.push_back(
        denied(facts, card.node, "permissions.dri_denied",
               trf("It is how programs work on the {} GPU at {}.", card.driver, card.pci_id)));
    break;
  }
  if (facts.kfd && facts.kfd->refused == EACCES)
    findings.push_back(
        denied(facts, *facts.kfd, "permissions.kfd_denied",
               tr("ROCm (PyTorch on AMD) opens it for every program: it finds no GPU "
                  "without.")));
}

void add_processes(const MachineFacts& facts, Findings& findings) {
  const bool is_root = facts.process.uid == 0U;
  if (facts.process.pid && !facts.process.is_environment_known)
    findings.push_back({"permissions.environment_hidden",
                        Severity::kNote,
                        trf("the environment of process {} may not be read", *facts.process.pid),
                        tr("So what its variables do to it (PyTorch's allocator settings, "
                           "CUDA_VISIBLE_DEVICES) was not looked at."),
                        {tr("look as its user or as root"),
                         {fmt::format("sudo vram doctor --pid {}", *facts.process.pid)}}});
  if (facts.platform.hides_processes && !is_root)
    findings.push_back(
        {"permissions.processes_hidden",
         Severity::kNote,
         tr("other users' processes are hidden (/proc is mounted with hidepid)"),
         tr("vram status shows their memory and their numbers, and not who they are."),
         {tr("look as root"), {"sudo vram status"}}});
  const auto settings = variable(facts, "PYTORCH_CUDA_ALLOC_CONF").value_or("");
  const bool shares_by_handle = settings.find("expandable_segments:True") != settings.npos;
  if (facts.platform.ptrace_scope.value_or(0) > 0 && shares_by_handle && !is_root)
    findings.push_back(
        {"permissions.ptrace",
         Severity::kNote,
         trf("processes may not take descriptors from each other (ptrace_scope {})",
             *facts.platform.ptrace_scope),
         tr("With expandable segments PyTorch hands tensors to other processes by descriptors "
            "(pidfd_getfd), which this forbids between processes that are not parent and child: "
            "sending CUDA tensors between workers may fail."),
         {tr("allow it until the next start, if you send CUDA tensors between processes"),
          {as_root(facts, "sysctl kernel.yama.ptrace_scope=0")}}});
}

bool are_all_open(const MachineFacts& facts) {
  const auto is_open = [](const DeviceNode& node) { return node.exists && node.refused == 0; };
  return std::ranges::all_of(facts.nvidia.nodes, is_open) &&
         std::ranges::all_of(facts.drm, [&](const DrmFacts& card) { return is_open(card.node); });
}

}  // namespace

Findings check_permissions(const MachineFacts& facts) {
  Findings findings;
  add_nvidia(facts, findings);
  add_drm_access(facts, findings);
  const size_t nodes = facts.nvidia.nodes.size() + facts.drm.size();
  if (findings.empty() && nodes > 0 && are_all_open(facts))
    findings.push_back({"permissions.good", Severity::kGood,
                        trf("this user may open {}", counted(nodes, "GPU device file"))});
  add_processes(facts, findings);
  return findings;
}

// Limits of the process and of the host that stop GPU programs.

namespace {

constexpr uint64_t kFewFiles = 4096;
constexpr uint64_t kLittleLocked = kGiB;

void add_address_space(const MachineFacts& facts, Findings& findings) {
  const auto limit = facts.process.limits.address_space_bytes;
  if (!limit || !has_nvidia(facts)) return;
  findings.push_back({"limits.address_space",
                      Severity::kBad,
                      trf("the address space is limited to {} (ulimit -v)", format_bytes(*limit)),
                      tr("CUDA reserves addresses for the memory of all GPUs and of the host "
                         "together, without using "
                         "them, and pools reserve more: programs fail at their start, or far from "
                         "any real limit."),
                      {tr("take the limit away, also in /etc/security/limits.conf or the batch "
                          "system; limit memory "
                          "by a control group instead"),
                       {"ulimit -v unlimited"}}});
}

void add_locked(const MachineFacts& facts, Findings& findings) {
  const auto limit = facts.process.limits.locked_bytes;
  if (!limit || *limit >= kLittleLocked || !facts.platform.has_infiniband || !has_nvidia(facts))
    return;
  findings.push_back(
      {"limits.locked_memory",
       Severity::kWarning,
       trf("this machine has InfiniBand, and {} of memory may be locked (ulimit -l)",
           format_bytes(*limit)),
       tr("RDMA locks what it registers. NCCL and UCX fail with 'Cannot allocate memory' in "
          "ibv_reg_mr, or fall back to slow ways."),
       {tr("allow it, for containers at their start and for users in /etc/security/limits.conf"),
        {facts.container.is_inside ? std::string("docker run --ulimit memlock=-1 …")
                                   : "echo '* - memlock unlimited' | " +
                                         as_root(facts, "tee -a /etc/security/limits.conf"),
         "ulimit -l unlimited"}}});
}

void add_files(const MachineFacts& facts, Findings& findings) {
  const auto& limits = facts.process.limits;
  if (!limits.open_files || *limits.open_files >= kFewFiles) return;
  const uint64_t most = limits.max_open_files.value_or(65'536);
  findings.push_back(
      {"limits.open_files",
       Severity::kNote,
       trf("{} files may be open at a time (ulimit -n)", *limits.open_files),
       tr("PyTorch's DataLoader has a descriptor open for each tensor on its way from a worker, "
          "and "
          "NCCL some for each connection: 'Too many open files' comes in the middle of training."),
       {tr("raise it before the program starts"), {fmt::format("ulimit -n {}", most)}}});
}

void add_overcommit(const MachineFacts& facts, Findings& findings) {
  if (facts.platform.overcommit != 2U) return;
  findings.push_back(
      {"limits.overcommit",
       Severity::kWarning,
       tr("the kernel promises no more memory than there is (vm.overcommit_memory is 2)"),
       tr("CUDA and allocators reserve far more than they use, and a worker that is forked counts "
          "as "
          "much as its parent: programs fail with 'Cannot allocate memory' while memory is free."),
       {tr("let the kernel judge, as is its default") +
            (facts.container.is_inside ? ", " + place(facts) : std::string()),
        {on_host(facts, "sysctl vm.overcommit_memory=0")}}});
}

void add_host_memory(const MachineFacts& facts, Findings& findings) {
  const auto host = facts.platform.memory_bytes;
  const uint64_t gpu = largest_memory(facts);
  const bool has_swap = facts.platform.swap_bytes.value_or(1) > 0;
  if (!host || gpu == 0 || *host + facts.platform.swap_bytes.value_or(0) >= gpu) return;
  findings.push_back(
      {"limits.host_memory",
       Severity::kNote,
       trf("the host has {} of memory{}, the GPU {}", format_bytes(*host),
           has_swap ? "" : tr(" and no swap"), format_bytes(gpu)),
       tr("A checkpoint that fills the GPU does not fit into the host at once, and offloading to "
          "it "
          "gains little."),
       {tr("load checkpoints piece by piece, or mapped from the file; more swap helps once"),
        {"torch.load(path, mmap=True, map_location='cuda')"}}});
}

}  // namespace

Findings check_limits(const MachineFacts& facts) {
  Findings findings;
  add_address_space(facts, findings);
  add_locked(facts, findings);
  add_files(facts, findings);
  add_overcommit(facts, findings);
  add_host_memory(facts, findings);
  return findings;
}

}  // namespace vram::doctor
