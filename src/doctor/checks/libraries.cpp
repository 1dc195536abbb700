// Do the driver's libraries open, and what do they answer?
#include "base/language.hpp"
#include "doctor/checks/checks.hpp"
#include "gpu/cuda/driver_types.hpp"
#include "gpu/nvml/nvml_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <set>

namespace vram::doctor {
namespace {

namespace nvml = gpu::nvml;

bool is_mismatch(const NvidiaFacts& nvidia) {
  return nvidia.nvml.error == nvml::kLibRmVersionMismatch ||
         nvidia.cuda.error == gpu::cuda::kErrorSystemDriverMismatch;
}

std::vector<std::string> version_evidence(const NvidiaFacts& nvidia) {
  std::vector<std::string> lines;
  if (!nvidia.module_version.empty())
    lines.push_back(tr("kernel module: ") + nvidia.module_version);
  for (const LibraryFile& file : nvidia.libraries) lines.push_back(tr("library: ") + file.path);
  return lines;
}

Finding mismatch(const MachineFacts& facts) {
  Finding finding{
      "driver.version_mismatch", Severity::kBad,
      tr("the driver's library and its kernel module are of different versions"),
      tr("They speak a protocol of their own that changes with every version, so neither "
         "NVML nor CUDA starts. ")};
  finding.evidence = version_evidence(facts.nvidia);
  if (facts.container.is_inside) {
    finding.why +=
        tr("This container was started before the host's driver was updated, or its image "
           "has a driver library of its own.");
    finding.repair = {
        tr("restart the container; where that does not help, take packages such as "
           "libnvidia-compute out of the image: the container toolkit brings the host's"),
        {"docker restart CONTAINER"}};
    return finding;
  }
  finding.why += tr("The driver was updated while the old module stays loaded.");
  finding.repair = {tr("reboot, or end every program on the GPU and load the new module"),
                    {as_root(facts, "reboot"),
                     as_root(facts, "modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia") +
                         " && " + as_root(facts, "modprobe nvidia_uvm")}};
  return finding;
}

Finding library_missing(const MachineFacts& facts) {
  const std::string branch = std::to_string(branch_of(facts.nvidia.module_version));
  Finding finding{
      "driver.library_missing",
      Severity::kBad,
      tr("NVIDIA's management library (libnvidia-ml.so.1) can't be opened"),
      tr("The kernel module is loaded, and programs have nothing to speak to it with: "
         "nvidia-smi, vram's live views and PyTorch's memory reports need this library."),
      {tr("install the driver's libraries of the module's version, as your distribution "
          "packages them"),
       {as_root(facts, "apt install libnvidia-compute-" + branch)}},
      {facts.nvidia.nvml.load_error}};
  if (facts.container.is_inside)
    finding.repair = {tr("let the container toolkit put the host's libraries into the container"),
                      {"docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …"}};
  return finding;
}

Finding nvml_failed(const MachineFacts& facts) {
  const LibraryAnswer& answer = facts.nvidia.nvml;
  Finding finding{"driver.nvml_failed",
                  Severity::kBad,
                  tr("NVIDIA's management library does not start: ") + answer.error_text,
                  tr("Without it nothing can be known of the GPUs."),
                  {tr("the kernel's log has the reason"),
                   {as_root(facts, "dmesg | grep -iE 'nvrm|xid'"), "nvidia-smi"}}};
  if (answer.error == nvml::kNoPermission) {
    finding.why = tr("This user may not use the driver.");
    finding.repair = {tr("look at the files' permissions"), {"ls -l /dev/nvidia*"}};
  } else if (answer.error == nvml::kGpuIsLost || answer.error == nvml::kResetRequired) {
    finding.repair.how = tr(
        "the kernel's log names the GPU; a restart of the machine brings it back, or it is broken");
    finding.repair.commands.push_back(on_host(facts, "reboot"));
  }
  return finding;
}

Finding hanging(const MachineFacts& facts) {
  return {
      "driver.hangs",
      Severity::kBad,
      trf("the driver does not answer ({})", facts.nvidia.nvml.is_hanging ? "nvmlInit" : "cuInit"),
      tr("A call that should take milliseconds did not come back within the time it was given. "
         "Every program that uses the GPU will wait like this, and can't be ended."),
      {tr("see what the kernel says; a driver that is stuck comes back with a restart only"),
       {as_root(facts, "dmesg | grep -iE 'nvrm|xid'"), as_root(facts, "reboot")}}};
}

Finding cuda_missing(const MachineFacts& facts) {
  const std::string branch = std::to_string(branch_of(driver_version(facts)));
  Finding finding{
      "driver.cuda_missing",
      Severity::kBad,
      tr("the CUDA driver's library (libcuda.so.1) can't be opened"),
      tr("NVML works, so the driver does; but no CUDA program starts: PyTorch says that "
         "CUDA is not available. The CUDA toolkit does not bring this library, the driver "
         "does."),
      {tr("install the driver's compute library"),
       {as_root(facts, "apt install libnvidia-compute-" + branch)}},
      {facts.nvidia.cuda.load_error}};
  if (facts.container.is_inside)
    finding.repair = {tr("ask the container toolkit for it"),
                      {"docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …"}};
  return finding;
}

Repair repair_of_cuda(const MachineFacts& facts) {
  constexpr int kDevicesUnavailable = 46;
  constexpr int kSystemNotReady = 802;
  constexpr int kCompatNotSupported = 804;
  constexpr int kMpsFailed = 805;
  switch (facts.nvidia.cuda.error) {
    case gpu::cuda::kErrorNoDevice:
      return {tr("no device is left visible: look at CUDA_VISIBLE_DEVICES, and at MIG"),
              {"unset CUDA_VISIBLE_DEVICES"}};
    case gpu::cuda::kErrorInvalidDevice:
      return {tr("CUDA_VISIBLE_DEVICES may name a device that is not there"),
              {"unset CUDA_VISIBLE_DEVICES"}};
    case kDevicesUnavailable:
      return {tr("another program has it for itself (compute mode), or it is in trouble"),
              {"nvidia-smi --query-gpu=uuid,compute_mode --format=csv"}};
    case kSystemNotReady:
      return {tr("GPUs behind NVSwitch wait for the fabric manager, of the driver's version"),
              {as_root(facts, "systemctl enable --now nvidia-fabricmanager")}};
    case kCompatNotSupported:
      return {
          tr("this GPU does not take the compatibility libcuda: leave /usr/local/cuda/compat out "
             "of the library path, and update the driver"),
          {"unset LD_LIBRARY_PATH"}};
    case kMpsFailed:
      return {tr("MPS's daemon can't be reached: start it, or let the program go without"),
              {"nvidia-cuda-mps-control -d", "unset CUDA_MPS_PIPE_DIRECTORY"}};
    default:
      return {
          tr("often nvidia_uvm is in a bad state, after suspend for instance; end every program on "
             "the GPU first"),
          {as_root(facts, "modprobe -r nvidia_uvm") + " && " +
           as_root(facts, "modprobe nvidia_uvm")}};
  }
}

Finding cuda_failed(const MachineFacts& facts) {
  Finding finding{
      "driver.cuda_failed", Severity::kBad,
      tr("CUDA does not start: ") + facts.nvidia.cuda.error_text,
      tr("NVML sees the GPUs, and programs can't use them: torch.cuda.is_available() is "
         "False."),
      repair_of_cuda(facts)};
  if (variable(facts, "CUDA_VISIBLE_DEVICES") && !facts.process.pid)
    finding.evidence = {shown(facts, "CUDA_VISIBLE_DEVICES")};
  return finding;
}

// A compatibility libcuda is newer than the driver, as it should be.
std::set<std::string> versions_of(const NvidiaFacts& nvidia, std::string_view name) {
  std::set<std::string> versions;
  for (const LibraryFile& file : nvidia.libraries) {
    if (file.name == name && file.path.find("/compat/") == std::string::npos)
      versions.insert(file.version);
  }
  return versions;
}

Finding libraries_differ(const MachineFacts& facts) {
  return {
      "driver.libraries_differ",
      Severity::kWarning,
      tr("libraries of several driver versions are installed"),
      tr("Which one a program gets depends on its search path; one that is not of the kernel "
         "module's version does not start (version mismatch). Remains of a driver that was "
         "installed in another way (NVIDIA's .run file in addition to packages) look like this."),
      {tr("see which one is found first, and remove the others"),
       {"ldconfig -p | grep -E 'libcuda|libnvidia-ml'"}},
      version_evidence(facts.nvidia)};
}

// Whether another check has the reason why the libraries don't open or start.
bool is_explained(const MachineFacts& facts) {
  const NvidiaFacts& nvidia = facts.nvidia;
  if (facts.platform.is_wsl || !has_nvidia(facts) || !nvidia.has_module || !has_nodes(facts))
    return true;
  return std::ranges::any_of(nvidia.nodes,
                             [](const DeviceNode& node) { return node.refused != 0; });
}

bool is_lost_to_container(const MachineFacts& facts) {
  const int error = facts.nvidia.nvml.error;
  return facts.container.is_inside && (error == nvml::kUnknown || error == nvml::kOperatingSystem);
}

bool hides_all(const MachineFacts& facts) {
  const auto visible = variable(facts, "CUDA_VISIBLE_DEVICES");
  return visible && !facts.process.pid && (visible->empty() || *visible == "-1");
}

void add_nvml(const MachineFacts& facts, Findings& findings) {
  const LibraryAnswer& answer = facts.nvidia.nvml;
  if (is_explained(facts)) return;
  if (!answer.load_error.empty()) {
    findings.push_back(library_missing(facts));
  } else if (answer.error != 0 && !is_lost_to_container(facts)) {
    findings.push_back(nvml_failed(facts));
  }
}

void add_cuda(const MachineFacts& facts, Findings& findings) {
  const LibraryAnswer& answer = facts.nvidia.cuda;
  if (!nvml_works(facts) || !answer.was_asked) return;
  if (!answer.load_error.empty()) {
    findings.push_back(cuda_missing(facts));
  } else if (answer.error != 0 && !hides_all(facts)) {
    findings.push_back(cuda_failed(facts));
  }
}

}  // namespace

Findings check_libraries(const MachineFacts& facts) {
  const NvidiaFacts& nvidia = facts.nvidia;
  Findings findings;
  if (nvidia.nvml.is_hanging || nvidia.cuda.is_hanging) {
    findings.push_back(hanging(facts));
  } else if (is_mismatch(nvidia)) {
    findings.push_back(mismatch(facts));
  } else {
    add_nvml(facts, findings);
    add_cuda(facts, findings);
  }
  if (versions_of(nvidia, "libcuda").size() > 1 || versions_of(nvidia, "libnvidia-ml").size() > 1)
    findings.push_back(libraries_differ(facts));
  return findings;
}

}  // namespace vram::doctor
