// What kind of machine this is, as far as GPU memory is concerned.
#include "base/language.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::doctor {
namespace {

Finding no_gpu() {
  return {
      "platform.no_gpu",
      Severity::kNote,
      tr("no NVIDIA, AMD or Intel GPU on the bus"),
      tr("vram status, top and free have nothing to show here. Reports, replays, tuning and dry "
         "runs need no GPU."),
      {tr("try vram on the recordings that come with it"),
       {"vram demo", "vram status --gpu sim --watch 1"}}};
}

Finding passthrough(const PciGpu& gpu) {
  return {"platform.gpu_passthrough",
          Severity::kNote,
          trf("the GPU at {} is set aside for virtual machines", gpu.pci_id),
          tr("vfio-pci has it, so no program of this system can use it."),
          {tr("to use it here, take it out of the vfio-pci options (kernel command line, "
              "/etc/modprobe.d), then restart"),
           {"grep -r vfio /etc/modprobe.d /proc/cmdline"}}};
}

std::string_view module_of(const PciGpu& gpu) {
  return gpu.vendor == gpu::Vendor::kAmd ? "amdgpu" : "xe";
}

Finding no_driver(const MachineFacts& facts, const PciGpu& gpu) {
  const std::string module(module_of(gpu));
  return {"platform.gpu_without_driver",
          Severity::kWarning,
          trf("no driver has the GPU at {}", gpu.pci_id),
          trf("It is of {}; the kernel has no driver loaded that knows it, or the driver "
              "gave up on it, so no program can use it.",
              gpu.vendor == gpu::Vendor::kAmd ? "AMD" : "Intel"),
          {tr("load the driver, and see what it says") +
               (facts.container.is_inside ? ", " + place(facts) : std::string()),
           {on_host(facts, "modprobe " + module), on_host(facts, "dmesg | grep -i " + module)}}};
}

bool is_unified(const watch::Device& device) {
  return device.identity.name && device.identity.name->find("GB10") != std::string::npos;
}

Finding unified(const std::string& board) {
  return {"platform.unified_memory",
          Severity::kNote,
          trf("the GPU shares the machine's memory ({})", printable(board)),
          tr("There is no separate GPU memory: the driver tells no total and no used memory, what "
             "programs take on the GPU is missing from the system's, and pinned memory gains "
             "nothing. 'Out of memory' on the GPU means the machine is full."),
          {tr("look at the system's memory instead"), {"free -h"}}};
}

void add_gpus(const MachineFacts& facts, Findings& findings) {
  for (const PciGpu& gpu : facts.gpus) {
    const bool is_nvidia = gpu.vendor == gpu::Vendor::kNvidia;
    if (gpu.driver == "vfio-pci") findings.push_back(passthrough(gpu));
    if (!is_nvidia && gpu.driver.empty()) findings.push_back(no_driver(facts, gpu));
  }
}

// Of AMD's and Intel's drivers, those before memory figures of processes came.
void add_old_kernel(const MachineFacts& facts, Findings& findings) {
  for (const DrmFacts& card : facts.drm) {
    const bool is_old_amd = card.driver == "amdgpu" && is_kernel_before(facts, 5, 14);
    const bool is_old_intel = card.driver == "i915" && is_kernel_before(facts, 6, 8);
    if (!is_old_amd && !is_old_intel) continue;
    findings.push_back(
        {"platform.old_kernel",
         Severity::kNote,
         trf("this kernel does not say how much GPU memory a process uses ({})", card.driver),
         trf("It is {}; {} tells it from {} on. The GPU's own figures are complete.",
             facts.platform.kernel, card.driver, is_old_amd ? "5.14" : "6.8"),
         {tr("run a newer kernel"), {}}});
    return;
  }
}

}  // namespace

Findings check_platform(const MachineFacts& facts) {
  Findings findings;
  const bool has_board = facts.platform.board.has_value();
  const auto& found = devices(facts);
  if (facts.gpus.empty() && facts.drm.empty() && found.empty() && !has_nvidia(facts) &&
      !has_board && !facts.platform.is_wsl)
    findings.push_back(no_gpu());
  add_gpus(facts, findings);
  add_old_kernel(facts, findings);
  const auto device = std::ranges::find_if(found, is_unified);
  if (has_board || device != found.end())
    findings.push_back(unified(has_board ? *facts.platform.board : *device->identity.name));
  return findings;
}

// Windows' Linux (WSL 2): the GPU is reached through Windows' driver.

namespace {

Finding no_device(const MachineFacts& facts) {
  return {
      "platform.wsl_no_gpu_device",
      Severity::kBad,
      tr("WSL has no way to the GPU (/dev/dxg is not there)"),
      trf("Kernel {}. It is there in WSL 2 with a Windows driver that supports it; WSL 1 "
          "has none.",
          facts.platform.kernel),
      {tr("in Windows: update WSL and NVIDIA's Windows driver, and make this distribution one of "
          "WSL 2"),
       {"wsl.exe --update", "wsl.exe --set-version DISTRIBUTION 2", "wsl.exe --shutdown"}}};
}

Finding library_path(const MachineFacts& facts) {
  return {
      "platform.wsl_library_path",
      Severity::kBad,
      tr("the driver's libraries in /usr/lib/wsl/lib are not found"),
      tr("WSL puts libcuda.so.1 and libnvidia-ml.so.1 there, and the loader does not search there: "
         "CUDA is not available to programs."),
      {tr("tell the loader"),
       {"echo /usr/lib/wsl/lib | " + as_root(facts, "tee /etc/ld.so.conf.d/ld.wsl.conf"),
        as_root(facts, "ldconfig")}},
      {facts.nvidia.nvml.load_error}};
}

Finding old_kernel(const MachineFacts& facts) {
  return {"platform.wsl_old_kernel",
          Severity::kWarning,
          trf("WSL's kernel is old ({})", facts.platform.kernel),
          tr("GPU support of before 5.10.43 is slow and misses NVML and pinned memory in part."),
          {tr("in Windows"), {"wsl.exe --update", "wsl.exe --shutdown"}}};
}

Finding linux_driver(const MachineFacts& facts, const LibraryFile& file) {
  return {
      "platform.wsl_linux_driver",
      Severity::kWarning,
      tr("a Linux driver of NVIDIA's is installed in WSL"),
      tr("Windows' driver is the only one that works here; libraries of a Linux driver hide its "
         "own in /usr/lib/wsl/lib, and CUDA does not start."),
      {tr("remove it; of CUDA's packages, only those without the driver belong here"),
       {"dpkg -S " + file.path,
        as_root(facts, "apt purge 'nvidia-driver-*' 'libnvidia-compute-*' 'cuda-drivers*'")}},
      {file.path}};
}

Finding no_process_memory() {
  return {"platform.wsl_no_process_memory",
          Severity::kNote,
          tr("under WSL the driver does not say how much memory a process uses"),
          tr("vram status shows the GPU's figures, and processes with '-' for their memory; what "
             "programs post themselves is complete."),
          {tr("in the program"), {"vram.add_sink(vram.Board())"}}};
}

bool is_too_old(const MachineFacts& facts) {
  const bool is_first = facts.platform.kernel.starts_with("5.10.");
  const uint32_t patch = is_first ? branch_of(facts.platform.kernel.substr(5)) : 0;
  return is_kernel_before(facts, 5, 10) || (is_first && patch < 43);
}

}  // namespace

Findings check_wsl(const MachineFacts& facts) {
  if (!facts.platform.is_wsl) return {};
  Findings findings;
  if (!facts.platform.has_dxg) findings.push_back(no_device(facts));
  if (facts.platform.has_wsl_library && !facts.nvidia.nvml.load_error.empty())
    findings.push_back(library_path(facts));
  if (is_too_old(facts)) findings.push_back(old_kernel(facts));
  const auto& libraries = facts.nvidia.libraries;
  // Those of CUDA's compatibility package are where programs search only if a variable says so.
  const auto file = std::ranges::find_if(libraries, [](const LibraryFile& each) {
    return each.name == "libcuda" && each.path.find("/compat/") == std::string::npos;
  });
  if (file != libraries.end()) findings.push_back(linux_driver(facts, *file));
  if (facts.platform.has_dxg) findings.push_back(no_process_memory());
  return findings;
}

}  // namespace vram::doctor
