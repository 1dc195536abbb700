// Is NVIDIA's kernel module there, and does it drive the GPUs?
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::doctor {
namespace {

std::string addresses(const std::vector<const PciGpu*>& gpus) {
  std::string text;
  for (const PciGpu* gpu : gpus)
    text += fmt::format("{}{} (10de:{:04x})", text.empty() ? "" : ", ", gpu->pci_id, gpu->chip);
  return text;
}

Finding nouveau(const MachineFacts& facts) {
  return {
      "driver.nouveau",
      Severity::kBad,
      tr("the nouveau driver has the GPU"),
      tr("CUDA needs NVIDIA's own kernel module, and a GPU has one driver at a time: while nouveau "
         "is loaded, NVIDIA's can't be."),
      {tr("keep nouveau from being loaded, then install NVIDIA's driver if it is not there; on "
          "Fedora and RHEL it is 'dracut --force' instead of update-initramfs"),
       {"echo 'blacklist nouveau' | " +
            on_host(facts, "tee /etc/modprobe.d/blacklist-nouveau.conf"),
        on_host(facts, "update-initramfs -u"), on_host(facts, "reboot")}}};
}

Finding not_built(const MachineFacts& facts) {
  return {
      "driver.not_built",
      Severity::kBad,
      trf("NVIDIA's kernel module is not built for this kernel ({})", facts.platform.kernel),
      tr("Its source is installed (DKMS), and there is no module for the kernel that runs: usually "
         "the kernel was updated and its headers were not there. Until it is built no program can "
         "use the GPU."),
      {tr("install the headers of this kernel and build the module; these are Debian's and "
          "Ubuntu's words"),
       {on_host(facts, "apt install linux-headers-$(uname -r)"), on_host(facts, "dkms autoinstall"),
        on_host(facts, "modprobe nvidia")}}};
}

Repair load_or_install(const MachineFacts& facts) {
  if (facts.container.is_inside)
    return {place(facts), {"sudo modprobe nvidia", "sudo nvidia-modprobe -u -c 0"}};
  if (!facts.nvidia.has_module_file)
    return {
        tr("install NVIDIA's driver; on Ubuntu the first line does, elsewhere the distribution's "
           "package"),
        {on_host(facts, "ubuntu-drivers install"), on_host(facts, "reboot")}};
  if (facts.platform.secure_boot.value_or(false))
    return {
        tr("let Secure Boot know the key that signed the module (it asks for a password, which is "
           "to be typed again at the next start), or switch Secure Boot off"),
        {on_host(facts, "mokutil --import /var/lib/shim-signed/mok/MOK.der"),
         on_host(facts, "reboot")}};
  return {tr("load it; dmesg says why where it refuses"),
          {on_host(facts, "modprobe nvidia"), on_host(facts, "dmesg | grep -i nvrm")}};
}

Finding not_loaded(const MachineFacts& facts, const std::vector<const PciGpu*>& gpus) {
  const bool is_refused = facts.platform.secure_boot.value_or(false);
  return {"driver.not_loaded",
          Severity::kBad,
          tr("NVIDIA's kernel module is not loaded"),
          trf("{} on the bus, and no driver for it: no program can use it.{}",
              counted(gpus.size(), "GPU"),
              is_refused ? tr(" Secure Boot is on: the kernel refuses modules that no key it "
                              "knows has signed.")
                         : ""),
          load_or_install(facts),
          {tr("/proc/driver/nvidia/version: not there"), addresses(gpus)}};
}

}  // namespace

Findings check_module(const MachineFacts& facts) {
  const std::vector<const PciGpu*> gpus = nvidia_gpus(facts);
  const bool has_nouveau =
      std::ranges::any_of(gpus, [](const PciGpu* gpu) { return gpu->driver == "nouveau"; });
  if (has_nouveau) return {nouveau(facts)};
  if (gpus.empty() || facts.nvidia.has_module || nvml_works(facts) || facts.platform.is_wsl)
    return {};
  const bool is_buildable = facts.nvidia.has_module_source && !facts.nvidia.has_module_file;
  if (is_buildable && !facts.container.is_inside) return {not_built(facts)};
  return {not_loaded(facts, gpus)};
}

// Is the driver new enough, and one for these GPUs?

namespace {

// What comes with a branch of the driver, the newest first.
struct Gain {
  uint32_t branch;
  Severity severity;  // where it is not there
  std::string_view without;
};
constexpr std::array kGains = {
    Gain{580, Severity::kNote, tr_later("programs built with CUDA 13 don't start")},
    Gain{525, Severity::kWarning, tr_later("programs built with CUDA 12 don't start")},
    Gain{510, Severity::kWarning,
         tr_later("what the driver reserves is counted to what programs use, so their memory seems "
                  "larger")},
    Gain{450, Severity::kWarning,
         tr_later("CUDA 11 does not start, and vram's pool can't map memory (it needs the driver's "
                  "virtual "
                  "memory functions)")}};

Finding old(const MachineFacts& facts, uint32_t branch) {
  Finding finding{"driver.old", Severity::kNote, trf("the driver is of branch {}", branch),
                  tr("With it ")};
  for (const Gain& gain : kGains) {
    if (branch >= gain.branch) continue;
    finding.severity = std::min(finding.severity, gain.severity);
    finding.why +=
        trf("{}{} (from {} on)", finding.why.size() > 8 ? "; " : "", gain.without, gain.branch);
  }
  finding.why += ".";
  finding.repair = {tr("install a newer driver") +
                        (facts.container.is_inside ? " " + place(facts) : std::string()) +
                        tr(", then restart; programs built with an older CUDA go on working"),
                    {on_host(facts, "ubuntu-drivers install")}};
  finding.evidence = {tr("driver: ") + printable(driver_version(facts))};
  return finding;
}

// By PCI's numbers of the chips, which NVIDIA gives in order.
constexpr uint32_t kFirstTuring = 0x1e00;
constexpr uint32_t kFirstBlackwell = 0x2900;
constexpr uint32_t kFirstWithoutVolta = 590;

std::string why_unsupported(const MachineFacts& facts, const PciGpu& gpu) {
  const bool is_open = facts.nvidia.is_open.value_or(false);
  if (gpu.chip >= kFirstBlackwell && facts.nvidia.is_open == false)
    return tr("it needs NVIDIA's open kernel modules, and the proprietary ones are loaded");
  if (gpu.chip < kFirstTuring && is_open)
    return tr(
        "the open kernel modules that are loaded know GPUs from Turing on; this one is older");
  if (gpu.chip < kFirstTuring && branch_of(facts.nvidia.module_version) >= kFirstWithoutVolta)
    return tr("drivers from 590 on no longer know GPUs before Turing");
  return "";
}

Repair repair_of_flavour(const MachineFacts& facts, const PciGpu& gpu) {
  const uint32_t branch = branch_of(facts.nvidia.module_version);
  if (gpu.chip >= kFirstBlackwell)
    return {tr("install the open flavour of the driver, then restart"),
            {on_host(facts, fmt::format("apt install nvidia-driver-{}-open", branch))}};
  return {tr("install the last driver for it, with the proprietary modules, then restart"),
          {on_host(facts, fmt::format("apt install nvidia-driver-{}",
                                      std::min(branch, kFirstWithoutVolta - 10)))}};
}

// A GPU that the driver counts is one that it knows.
bool counts_all(const MachineFacts& facts) {
  return facts.nvidia.nvml.devices.value_or(0) >= nvidia_gpus(facts).size();
}

}  // namespace

Findings check_driver_version(const MachineFacts& facts) {
  Findings findings;
  const uint32_t branch = branch_of(driver_version(facts));
  if (branch > 0 && branch < kGains.front().branch) findings.push_back(old(facts, branch));
  if (!facts.nvidia.has_module || facts.container.is_inside || counts_all(facts)) return findings;
  for (const PciGpu* gpu : nvidia_gpus(facts)) {
    const std::string why = why_unsupported(facts, *gpu);
    if (why.empty()) continue;
    findings.push_back({"driver.unsupported_gpu",
                        Severity::kBad,
                        trf("the driver does not know the GPU at {}", gpu->pci_id),
                        trf("Of the GPU 10de:{:04x}: {}.", gpu->chip, why),
                        repair_of_flavour(facts, *gpu),
                        {tr("kernel module: ") + facts.nvidia.module_version}});
  }
  return findings;
}

}  // namespace vram::doctor
