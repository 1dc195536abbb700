// Windows' Linux (WSL 2): the GPU is reached through Windows' driver.
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::doctor {
namespace {

Finding no_device(const MachineFacts& facts) {
  return {
      "platform.wsl_no_gpu_device",
      Severity::kBad,
      "WSL has no way to the GPU (/dev/dxg is not there)",
      fmt::format("Kernel {}. It is there in WSL 2 with a Windows driver that supports it; WSL 1 "
                  "has none.",
                  facts.platform.kernel),
      {"in Windows: update WSL and NVIDIA's Windows driver, and make this distribution one of "
       "WSL 2",
       {"wsl.exe --update", "wsl.exe --set-version DISTRIBUTION 2", "wsl.exe --shutdown"}}};
}

Finding library_path(const MachineFacts& facts) {
  return {
      "platform.wsl_library_path",
      Severity::kBad,
      "the driver's libraries in /usr/lib/wsl/lib are not found",
      "WSL puts libcuda.so.1 and libnvidia-ml.so.1 there, and the loader does not search there: "
      "CUDA is not available to programs.",
      {"tell the loader",
       {"echo /usr/lib/wsl/lib | " + as_root(facts, "tee /etc/ld.so.conf.d/ld.wsl.conf"),
        as_root(facts, "ldconfig")}},
      {facts.nvidia.nvml.load_error}};
}

Finding old_kernel(const MachineFacts& facts) {
  return {"platform.wsl_old_kernel",
          Severity::kWarning,
          fmt::format("WSL's kernel is old ({})", facts.platform.kernel),
          "GPU support of before 5.10.43 is slow and misses NVML and pinned memory in part.",
          {"in Windows", {"wsl.exe --update", "wsl.exe --shutdown"}}};
}

Finding linux_driver(const MachineFacts& facts, const LibraryFile& file) {
  return {"platform.wsl_linux_driver",
          Severity::kWarning,
          "a Linux driver of NVIDIA's is installed in WSL",
          "Windows' driver is the only one that works here; libraries of a Linux driver hide its "
          "own in /usr/lib/wsl/lib, and CUDA does not start.",
          {"remove it; of CUDA's packages, only those without the driver belong here",
           {"dpkg -S " + file.path,
            as_root(facts, "apt purge 'nvidia-driver-*' 'libnvidia-compute-*' 'cuda-drivers*'")}},
          {file.path}};
}

Finding no_process_memory() {
  return {"platform.wsl_no_process_memory",
          Severity::kNote,
          "under WSL the driver does not say how much memory a process uses",
          "vram status shows the GPU's figures, and processes with '-' for their memory; what "
          "programs post themselves is complete.",
          {"in the program", {"vram.add_sink(vram.Board())"}}};
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
  // Those of CUDA's compatibility package lie where no program looks unless it is told to.
  const auto file = std::ranges::find_if(libraries, [](const LibraryFile& each) {
    return each.name == "libcuda" && each.path.find("/compat/") == std::string::npos;
  });
  if (file != libraries.end()) findings.push_back(linux_driver(facts, *file));
  if (facts.platform.has_dxg) findings.push_back(no_process_memory());
  return findings;
}

}  // namespace vram::doctor
