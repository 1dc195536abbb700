// Does the driver have every GPU that the bus has?
#include "base/bytes.hpp"
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::doctor {
namespace {

Finding fell_off(const MachineFacts& facts, const PciGpu& gpu) {
  return {
      "driver.gpu_fell_off",
      Severity::kBad,
      fmt::format("the GPU at {} fell off the bus", gpu.pci_id),
      "It answers nothing but ones (lspci shows 'rev ff'). Programs that used it are lost; it "
      "comes back with a restart at best. Heat, power (cables, the supply's peak load), a loose "
      "seat or a failing card are the usual reasons.",
      {"restart, switched off for a moment if possible; when it comes again, check power and "
       "seat, then the card",
       {on_host(facts, "dmesg | grep -iE 'xid|aer|fallen'"), on_host(facts, "reboot")}}};
}

Finding missing(const MachineFacts& facts, size_t on_bus) {
  Finding finding{"driver.gpu_missing",
                  Severity::kBad,
                  fmt::format("the driver sees {} of {}", facts.nvidia.nvml.devices.value_or(0),
                              counted(on_bus, "GPU")),
                  "The others are on the bus, and the driver gave up on them when it started or "
                  "since: the kernel's log says why.",
                  {"see what the driver says of them; often a restart brings them back",
                   {on_host(facts, "dmesg | grep -i nvrm"), on_host(facts, "reboot")}}};
  for (const PciGpu* gpu : nvidia_gpus(facts))
    finding.evidence.push_back(gpu->pci_id + (gpu->is_gone ? ": does not answer" : ""));
  return finding;
}

std::string driver_in_words(const MachineFacts& facts) {
  const std::string version = driver_version(facts);
  const auto& is_open = facts.nvidia.is_open;
  return fmt::format("NVIDIA's driver {}{}", version,
                     !is_open   ? ""
                     : *is_open ? " (open kernel modules)"
                                : " (proprietary kernel modules)");
}

}  // namespace

Findings check_devices(const MachineFacts& facts) {
  Findings findings;
  const auto gpus = nvidia_gpus(facts);
  bool has_gone = false;
  for (const PciGpu& gpu : facts.gpus) {
    if (gpu.is_gone) findings.push_back(fell_off(facts, gpu));
    has_gone = has_gone || gpu.is_gone;
  }
  const size_t seen = facts.nvidia.nvml.devices.value_or(0);
  // In a container the bus shows all GPUs of the host.
  if (nvml_works(facts) && !facts.container.is_inside && seen < gpus.size() && !has_gone)
    findings.push_back(missing(facts, gpus.size()));
  const std::string& version = facts.nvidia.cuda.version;
  if (nvml_works(facts) && cuda_works(facts) && findings.empty()) {
    findings.push_back({"driver.good", Severity::kGood,
                        fmt::format("{}: NVML counts {}, CUDA{} starts", driver_in_words(facts),
                                    counted(seen, "GPU"), version.empty() ? "" : " " + version)});
  }
  return findings;
}

}  // namespace vram::doctor
