// In a container: was it given the GPUs, and does it still have them?
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"
#include "gpu/nvml/nvml_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace vram::doctor {
namespace {

constexpr const char* kVisible = "NVIDIA_VISIBLE_DEVICES";
constexpr const char* kCapabilities = "NVIDIA_DRIVER_CAPABILITIES";

bool is_podman(const MachineFacts& facts) { return facts.container.runtime == "podman"; }

std::string run_with_gpus(const MachineFacts& facts) {
  return is_podman(facts) ? "podman run --device nvidia.com/gpu=all …" : "docker run --gpus all …";
}

Finding none_given(const MachineFacts& facts) {
  return {
      "container.no_gpu_given",
      Severity::kBad,
      tr("the host has NVIDIA's driver, and this container was given no GPU"),
      tr("The GPUs' device files are not in here, so neither CUDA nor NVML can start."),
      {tr("start the container with them; where that is not known, let the toolkit set the "
          "runtime up on the host first"),
       {run_with_gpus(facts),
        "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"}}};
}

Finding hidden(const MachineFacts& facts) {
  return {
      "container.hidden_by_variable",
      Severity::kBad,
      trf("{} keeps the GPUs out of this container", kVisible),
      tr("The container toolkit reads it from the image and from the command line: 'void', 'none' "
         "and an empty value mean no GPU."),
      {tr("start the container with another value"),
       {"docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=all …"}},
      {shown(facts, kVisible)}};
}

Finding kubernetes() {
  return {
      "container.kubernetes_no_gpu",
      Severity::kBad,
      tr("this pod was given no GPU"),
      tr("The node has NVIDIA's driver. A pod gets GPUs when one of its containers asks for them "
         "in its limits, and the device plugin runs on the node."),
      {tr("add to the container's resources, and see whether the node offers GPUs"),
       {"limits: {nvidia.com/gpu: 1}", "kubectl describe node NODE | grep nvidia.com/gpu"}}};
}

bool has_capability(std::string_view value, std::string_view wanted) {
  return value.empty() || value.find(wanted) != std::string_view::npos ||
         value.find("all") != std::string_view::npos;
}

void add_capabilities(const MachineFacts& facts, Findings& findings) {
  const auto value = variable(facts, kCapabilities);
  if (!value || !has_nodes(facts)) return;
  std::string missing;
  std::string effect;
  if (!has_capability(*value, "compute") && !cuda_works(facts)) {
    missing = "compute";
    effect = tr("Without compute there is no libcuda: CUDA is not available. ");
  }
  if (!has_capability(*value, "utility") && !nvml_works(facts)) {
    missing += missing.empty() ? "utility" : ",utility";
    effect += tr("Without utility there is no NVML: no nvidia-smi, no memory figures. ");
  }
  if (missing.empty()) return;
  findings.push_back({"container.capabilities",
                      Severity::kBad,
                      trf("{} leaves {} out", kCapabilities, missing),
                      effect + tr("The toolkit puts in those of the driver's libraries that this "
                                  "variable asks for."),
                      {tr("start the container with both"),
                       {"docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …"}},
                      {shown(facts, kCapabilities)}});
}

Finding lost(const MachineFacts& facts) {
  return {"container.devices_lost",
          Severity::kBad,
          tr("this container lost the right to use its GPUs"),
          tr("The device files are there, and the kernel refuses to open them: 'systemctl "
             "daemon-reload' on the host, or a container update, wrote the control group's list of "
             "devices again without them. Programs that have them open continue, new ones don't "
             "start."),
          {tr("restart the container; for good, make the links that systemd needs to know the "
              "devices by (on the host), or give them by CDI"),
           {"docker restart CONTAINER",
            "sudo nvidia-ctk system create-dev-char-symlinks --create-all"}},
          {facts.nvidia.nvml.error_text.empty() ? tr("opening is not permitted (EPERM)")
                                                : "NVML: " + facts.nvidia.nvml.error_text}};
}

bool has_lost_devices(const MachineFacts& facts) {
  const int error = facts.nvidia.nvml.error;
  const bool is_refused = std::ranges::any_of(
      facts.nvidia.nodes, [](const DeviceNode& node) { return node.refused == EPERM; });
  return has_nodes(facts) &&
         (is_refused || error == gpu::nvml::kUnknown || error == gpu::nvml::kOperatingSystem);
}

void add_absent(const MachineFacts& facts, Findings& findings) {
  const bool host_has = facts.nvidia.has_module || !nvidia_gpus(facts).empty();
  if (!host_has || has_nodes(facts) || facts.platform.is_wsl || nvml_works(facts)) return;
  const auto visible = variable(facts, kVisible);
  if (facts.container.runtime == "kubernetes") {
    findings.push_back(kubernetes());
  } else if (visible && (visible->empty() || *visible == "none" || *visible == "void")) {
    findings.push_back(hidden(facts));
  } else {
    findings.push_back(none_given(facts));
  }
}

void add_drm(const MachineFacts& facts, Findings& findings) {
  const bool has_none =
      std::ranges::none_of(facts.drm, [](const DrmFacts& card) { return card.node.exists; });
  if (facts.drm.empty() || !has_none) return;
  findings.push_back(
      {"container.no_dri",
       Severity::kNote,
       trf("the host's {} GPU is not in this container", facts.drm.front().driver),
       tr("Its files under /dev/dri are not here, so programs in the container can't "
          "use it."),
       {tr("give it to the container, if it is to use it; the second for ROCm"),
        {"docker run --device /dev/dri --group-add video …",
         "docker run --device /dev/kfd --device /dev/dri --group-add video …"}}});
}

Finding pid_namespace(const MachineFacts& facts) {
  const bool is_pod = facts.container.runtime == "kubernetes";
  return {
      "container.pid_namespace",
      Severity::kNote,
      tr("processes of the host and of other containers are hidden"),
      tr("Drivers name processes by the host's numbers, which mean nothing in this pid namespace: "
         "vram status shows such a process as hidden, without user and command, and can't tell "
         "who holds the memory."),
      {is_pod ? tr("give the pod that watches the host's")
              : tr("watch from the host, or from a "
                   "container that shares its processes"),
       {is_pod ? "hostPID: true" : "docker run --pid=host …"}}};
}

void add_memory_limit(const MachineFacts& facts, Findings& findings) {
  const auto limit = facts.container.memory_limit_bytes;
  const uint64_t gpu = largest_memory(facts);
  if (!limit || gpu == 0 || *limit >= gpu) return;
  findings.push_back(
      {"container.memory_limit",
       Severity::kWarning,
       trf("the control group allows {} of host memory, the GPU has {}", format_bytes(*limit),
           format_bytes(gpu)),
       tr("Pinned memory, data loaders, checkpoints on their way to the disk and whatever is "
          "offloaded count here: a model that fills the GPU does not pass through the host in one "
          "piece, and the kernel kills the process at the limit."),
       {tr("allow more (in Kubernetes limits.memory, under Slurm --mem)"),
        {fmt::format("docker run --memory={}g …", (gpu * 3 / 2) / kGiB + 1)}}});
}

Finding good(const MachineFacts& facts) {
  const std::string& runtime = facts.container.runtime;
  return {"container.good", Severity::kGood,
          trf("in a container{}, with {}", runtime.empty() ? "" : " (" + printable(runtime) + ")",
              counted(facts.nvidia.nvml.devices.value_or(0), "GPU"))};
}

}  // namespace

Findings check_container(const MachineFacts& facts) {
  Findings findings;
  add_memory_limit(facts, findings);
  if (!facts.container.is_inside) return findings;
  add_absent(facts, findings);
  add_capabilities(facts, findings);
  add_drm(facts, findings);
  if (has_lost_devices(facts)) findings.push_back(lost(facts));
  if (facts.container.is_host_pid_namespace == false) findings.push_back(pid_namespace(facts));
  if (nvml_works(facts)) findings.push_back(good(facts));
  return findings;
}

// /dev/shm: where data loaders pass batches on, and where vram's board lies.

namespace {

constexpr uint64_t kDockersDefault = 64 * kMiB;

Finding unusable(const MachineFacts& facts) {
  const FolderFacts& folder = facts.shared_memory;
  // A new one over it would hide what others have there.
  const Repair repair =
      folder.exists
          ? Repair{tr("let everybody write to it"), {as_root(facts, "chmod 1777 /dev/shm")}}
          : Repair{tr("mount it, for everybody to write"),
                   {as_root(facts, "mkdir -p /dev/shm"),
                    as_root(facts, "mount -t tmpfs -o mode=1777 tmpfs /dev/shm")}};
  return {"permissions.shared_memory", Severity::kBad,
          fmt::format("{} {}", folder.path,
                      folder.exists ? tr("may not be written by this user") : tr("is not there")),
          tr("PyTorch's data loaders pass batches through it, NCCL speaks between GPUs through it, "
             "and programs post their figures for vram on it."),
          repair};
}

Finding small(const MachineFacts& facts) {
  return {
      "container.small_shm",
      Severity::kWarning,
      trf("{} has {} only", facts.shared_memory.path,
          format_bytes(*facts.shared_memory.total_bytes)),
      tr("That is the container's default. A batch of 256 images of 224 x 224 as 32-bit floats "
         "takes 147 MiB: DataLoader workers die with 'Bus error' or 'insufficient shared memory', "
         "and NCCL fails to start."),
      {tr("start the container with more of it, or with the host's"),
       {"docker run --shm-size=16g …", "docker run --ipc=host …"}}};
}

Finding board_folder(const MachineFacts& facts, const FolderFacts& folder) {
  // A folder that an environment names may be anything: none to change rights of.
  const bool is_named = variable(facts, "VRAM_BOARD").has_value();
  const bool is_ours = folder.uid == facts.process.uid;
  return {
      "permissions.board_folder",
      Severity::kWarning,
      trf("the board's folder {} is {}", folder.path,
          is_ours ? tr("open to other users") : tr("another user's")),
      tr("vram's programs post on it only where no other user may write (mode 0700, their own): "
         "they won't, and vram status and free won't see what they cache."),
      is_named ? Repair{tr("let vram choose the folder, or name one that is not there yet"),
                        {"unset VRAM_BOARD"}}
               : Repair{tr("close it, or remove it where it is another user's"),
                        {as_root(facts, "chmod 700 " + folder.path)}},
      {fmt::format("mode {:04o}", folder.mode.value_or(0))}};
}

}  // namespace

Findings check_shared_memory(const MachineFacts& facts) {
  Findings findings;
  const FolderFacts& shared = facts.shared_memory;
  if (!shared.path.empty() && (!shared.exists || !shared.is_writable)) {
    findings.push_back(unusable(facts));
  } else if (facts.container.is_inside && shared.total_bytes &&
             *shared.total_bytes <= kDockersDefault) {
    findings.push_back(small(facts));
  }
  for (const FolderFacts& folder : facts.boards) {
    const bool is_open = (folder.mode.value_or(0) & 0077U) != 0;
    const bool is_anothers = folder.uid && facts.process.uid && folder.uid != facts.process.uid &&
                             facts.process.uid != 0U;  // root looks at everybody's
    if (is_open || is_anothers) findings.push_back(board_folder(facts, folder));
  }
  return findings;
}

}  // namespace vram::doctor
