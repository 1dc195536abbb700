// Is NVIDIA's kernel module there, and does it drive the GPUs?
#include "base/bytes.hpp"
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"

#include <fmt/format.h>

#include <algorithm>

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
      "the nouveau driver has the GPU",
      "CUDA needs NVIDIA's own kernel module, and a GPU has one driver at a time: while nouveau "
      "is loaded, NVIDIA's can't be.",
      {"keep nouveau from being loaded, then install NVIDIA's driver if it is not there; on "
       "Fedora and RHEL it is 'dracut --force' instead of update-initramfs",
       {"echo 'blacklist nouveau' | " +
            on_host(facts, "tee /etc/modprobe.d/blacklist-nouveau.conf"),
        on_host(facts, "update-initramfs -u"), on_host(facts, "reboot")}}};
}

Finding not_built(const MachineFacts& facts) {
  return {
      "driver.not_built",
      Severity::kBad,
      fmt::format("NVIDIA's kernel module is not built for this kernel ({})",
                  facts.platform.kernel),
      "Its source is installed (DKMS), and there is no module for the kernel that runs: usually "
      "the kernel was updated and its headers were not there. Until it is built no program can "
      "use the GPU.",
      {"install the headers of this kernel and build the module; these are Debian's and "
       "Ubuntu's words",
       {on_host(facts, "apt install linux-headers-$(uname -r)"), on_host(facts, "dkms autoinstall"),
        on_host(facts, "modprobe nvidia")}}};
}

Repair load_or_install(const MachineFacts& facts) {
  if (facts.container.is_inside)
    return {place(facts), {"sudo modprobe nvidia", "sudo nvidia-modprobe -u -c 0"}};
  if (!facts.nvidia.has_module_file)
    return {
        "install NVIDIA's driver; on Ubuntu the first line does, elsewhere the distribution's "
        "package",
        {on_host(facts, "ubuntu-drivers install"), on_host(facts, "reboot")}};
  if (facts.platform.secure_boot.value_or(false))
    return {
        "let Secure Boot know the key that signed the module (it asks for a password, which is "
        "to be typed again at the next start), or switch Secure Boot off",
        {on_host(facts, "mokutil --import /var/lib/shim-signed/mok/MOK.der"),
         on_host(facts, "reboot")}};
  return {"load it; dmesg says why where it refuses",
          {on_host(facts, "modprobe nvidia"), on_host(facts, "dmesg | grep -i nvrm")}};
}

Finding not_loaded(const MachineFacts& facts, const std::vector<const PciGpu*>& gpus) {
  const bool is_refused = facts.platform.secure_boot.value_or(false);
  return {"driver.not_loaded",
          Severity::kBad,
          "NVIDIA's kernel module is not loaded",
          fmt::format("{} on the bus, and no driver for it: no program can use it.{}",
                      counted(gpus.size(), "GPU"),
                      is_refused ? " Secure Boot is on: the kernel refuses modules that no key it "
                                   "knows has signed."
                                 : ""),
          load_or_install(facts),
          {"/proc/driver/nvidia/version: not there", addresses(gpus)}};
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

}  // namespace vram::doctor
