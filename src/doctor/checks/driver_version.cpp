// Is the driver new enough, and one for these GPUs?
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::doctor {
namespace {

// What comes with a branch of the driver, the newest first.
struct Gain {
  uint32_t branch;
  Severity severity;  // where it is not there
  std::string_view without;
};
constexpr std::array kGains = {
    Gain{580, Severity::kNote, "programs built with CUDA 13 don't start"},
    Gain{525, Severity::kWarning, "programs built with CUDA 12 don't start"},
    Gain{510, Severity::kWarning,
         "what the driver reserves is counted to what programs use, so their memory seems larger"},
    Gain{450, Severity::kWarning,
         "CUDA 11 does not start, and vram's pool can't map memory (it needs the driver's virtual "
         "memory functions)"}};

Finding old(const MachineFacts& facts, uint32_t branch) {
  Finding finding{"driver.old", Severity::kNote, fmt::format("the driver is of branch {}", branch),
                  "With it "};
  for (const Gain& gain : kGains) {
    if (branch >= gain.branch) continue;
    finding.severity = std::min(finding.severity, gain.severity);
    finding.why += fmt::format("{}{} (from {} on)", finding.why.size() > 8 ? "; " : "",
                               gain.without, gain.branch);
  }
  finding.why += ".";
  finding.repair = {"install a newer driver" +
                        (facts.container.is_inside ? " " + place(facts) : std::string()) +
                        ", then restart; programs built with an older CUDA go on working",
                    {on_host(facts, "ubuntu-drivers install")}};
  finding.evidence = {"driver: " + printable(driver_version(facts))};
  return finding;
}

// By PCI's numbers of the chips, which NVIDIA gives in order.
constexpr uint32_t kFirstTuring = 0x1e00;
constexpr uint32_t kFirstBlackwell = 0x2900;
constexpr uint32_t kFirstWithoutVolta = 590;

std::string why_unsupported(const MachineFacts& facts, const PciGpu& gpu) {
  const bool is_open = facts.nvidia.is_open.value_or(false);
  if (gpu.chip >= kFirstBlackwell && facts.nvidia.is_open == false)
    return "it needs NVIDIA's open kernel modules, and the proprietary ones are loaded";
  if (gpu.chip < kFirstTuring && is_open)
    return "the open kernel modules that are loaded know GPUs from Turing on; this one is older";
  if (gpu.chip < kFirstTuring && branch_of(facts.nvidia.module_version) >= kFirstWithoutVolta)
    return "drivers from 590 on no longer know GPUs before Turing";
  return "";
}

Repair repair_of_flavour(const MachineFacts& facts, const PciGpu& gpu) {
  const uint32_t branch = branch_of(facts.nvidia.module_version);
  if (gpu.chip >= kFirstBlackwell)
    return {"install the open flavour of the driver, then restart",
            {on_host(facts, fmt::format("apt install nvidia-driver-{}-open", branch))}};
  return {"install the last driver for it, with the proprietary modules, then restart",
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
                        fmt::format("the driver does not know the GPU at {}", gpu->pci_id),
                        fmt::format("Of the GPU 10de:{:04x}: {}.", gpu->chip, why),
                        repair_of_flavour(facts, *gpu),
                        {"kernel module: " + facts.nvidia.module_version}});
  }
  return findings;
}

}  // namespace vram::doctor
