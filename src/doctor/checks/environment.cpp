// vram's own variables.
#include "base/bytes.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"
#include "gpu/drm/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::doctor {
namespace {

const std::vector<std::string>& known_names() {
  static const std::vector<std::string> kNames = {
      "VRAM_BOARD",        "VRAM_CUDA_DRIVER",   "VRAM_DRM_ROOT",     "VRAM_DRY",
      "VRAM_LIBRARY",      "VRAM_LIMIT",         "VRAM_NVML",         "VRAM_POOL",
      "VRAM_PROGRAM",      "VRAM_RECORD",        "VRAM_RECORD_FIRST", "VRAM_RECORD_LIMIT",
      "VRAM_RECORD_SINCE", "VRAM_RECORD_STACKS", "VRAM_ROCM_SMI",     "VRAM_SAID",
      "VRAM_STARTUP",      "VRAM_STRICT"};
  return kNames;
}

}  // namespace

Findings check_vram_environment(const MachineFacts& facts) {
  Findings findings;
  for (const auto& [name, value] : facts.process.environment) {
    if (!name.starts_with("VRAM_") || std::ranges::count(known_names(), name) > 0) continue;
    const std::string_view meant = nearest(name, known_names());
    if (meant.empty()) continue;  // another program's
    findings.push_back(
        {"vram.unknown_variable",
         Severity::kWarning,
         fmt::format("vram has no variable {}; {} may be meant", printable(name), meant),
         "It does nothing.",
         {"", {fmt::format("export {}=…", meant)}},
         {shown(facts, name)}});
  }
  for (const std::string name : {"VRAM_NVML", "VRAM_ROCM_SMI", "VRAM_CUDA_DRIVER"}) {
    if (variable(facts, name).value_or("").empty()) continue;
    findings.push_back({"vram.other_library",
                        Severity::kNote,
                        fmt::format("{} names another library than the driver's", name),
                        "What vram says of the GPUs comes from there.",
                        {"", {"unset " + name}},
                        {shown(facts, name)}});
  }
  return findings;
}

// CUDA's and NCCL's variables that cost memory or time, and libraries that are put before others.

namespace {

constexpr uint64_t kNcclBuffer = 4 * kMiB;  // NCCL's default

// A variable that is on or off, and what that costs.
struct Costly {
  const char* id;
  const char* name;
  Severity severity;
  const char* what;
  const char* why;
};
constexpr std::array kSwitches = {
    Costly{"cuda.launch_blocking", "CUDA_LAUNCH_BLOCKING", Severity::kWarning,
           "every kernel is waited for (CUDA_LAUNCH_BLOCKING)",
           "The GPU idles while the program prepares the next kernel: small kernels run several "
           "times slower. It is meant for finding the line of an error."},
    Costly{"cuda.cache_disabled", "CUDA_CACHE_DISABLE", Severity::kWarning,
           "kernels that were compiled for this GPU are not kept (CUDA_CACHE_DISABLE)",
           "Programs whose binaries are for another GPU compile theirs at each start, for seconds "
           "to minutes."},
    Costly{"nccl.p2p_disabled", "NCCL_P2P_DISABLE", Severity::kWarning,
           "GPUs may not copy to each other directly (NCCL_P2P_DISABLE)",
           "NCCL goes through the host's memory, which is slower by far where there is NVLink. It "
           "is meant for machines where direct copies hang or lie."}};

void add_switches(const MachineFacts& facts, Findings& findings) {
  for (const Costly& costly : kSwitches) {
    if (!is_on(variable(facts, costly.name))) continue;
    findings.push_back({costly.id,
                        costly.severity,
                        costly.what,
                        costly.why,
                        {"", {fmt::format("unset {}", costly.name)}},
                        {shown(facts, costly.name)}});
  }
}

void add_eager(const MachineFacts& facts, Findings& findings) {
  constexpr const char* kVariableName = "CUDA_MODULE_LOADING";
  if (variable(facts, kVariableName) != "EAGER") return;
  findings.push_back(
      {"cuda.eager_loading",
       Severity::kWarning,
       "all kernels of all libraries are loaded at the start "
       "(CUDA_MODULE_LOADING=EAGER)",
       "PyTorch and its libraries have several hundred MiB of kernels, of which a "
       "program uses few; each process holds them all on each GPU, outside of any "
       "allocator's figures.",
       {"leave it to CUDA, which loads a kernel when it is first used (from 11.7 on)",
        {fmt::format("unset {}", kVariableName)}},
       {shown(facts, kVariableName)}});
}

void add_order(const MachineFacts& facts, Findings& findings) {
  std::vector<std::string> names;
  for (const watch::Device& device : devices(facts)) {
    if (device.identity.vendor == gpu::Vendor::kNvidia && device.identity.name &&
        std::ranges::count(names, *device.identity.name) == 0)
      names.push_back(*device.identity.name);
  }
  if (names.size() < 2 || variable(facts, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID") return;
  for (std::string& name : names) name = printable(name);
  findings.push_back(
      {"cuda.device_order",
       Severity::kWarning,
       "CUDA numbers these GPUs otherwise than nvidia-smi and vram do",
       fmt::format("There are several kinds ({}). Without CUDA_DEVICE_ORDER CUDA puts "
                   "what it takes for the fastest first, so CUDA_VISIBLE_DEVICES=1 "
                   "may mean another GPU than nvidia-smi's 1.",
                   fmt::join(names, ", ")),
       {"number them by their places on the bus", {"export CUDA_DEVICE_ORDER=PCI_BUS_ID"}}});
}

void add_nccl_buffers(const MachineFacts& facts, Findings& findings) {
  constexpr const char* kVariableName = "NCCL_BUFFSIZE";
  const auto bytes = gpu::drm::as_number(variable(facts, kVariableName).value_or(""));
  if (!bytes || *bytes <= kNcclBuffer) return;
  findings.push_back({"nccl.large_buffers",
                      Severity::kNote,
                      fmt::format("NCCL's buffers are of {} each", format_bytes(*bytes)),
                      "NCCL has one for each channel and each connection of each communicator, on "
                      "every GPU and outside of any allocator's figures. Its default is 4 MiB.",
                      {"", {fmt::format("unset {}", kVariableName)}},
                      {shown(facts, kVariableName)}});
}

// What is known to stand between programs and the GPU's memory.
struct Preload {
  std::string_view part;  // of the file's name
  std::string_view what;
};
constexpr std::array kPreloads = {
    Preload{"libvgpu",
            "HAMi's limit on GPU memory: what programs see as the GPU's memory is a "
            "quota, and its figures differ from the driver's"},
    Preload{"torch_memory_saver",
            "torch_memory_saver: it takes allocations out of PyTorch's hands "
            "and does not work with expandable segments"},
    Preload{"kvcached", "kvcached: it maps PyTorch's memory by itself"}};

void add_preloaded(const MachineFacts& facts, Findings& findings) {
  for (const PreloadedFile& file : facts.process.preloaded) {
    const std::string path = printable(file.path);
    if (!file.exists) {
      findings.push_back({"cuda.preload_missing",
                          Severity::kWarning,
                          fmt::format("LD_PRELOAD names a file that is not there: {}", path),
                          "The loader says so at the start of every program and continues without "
                          "it.",
                          {"take it out", {"unset LD_PRELOAD"}},
                          {shown(facts, "LD_PRELOAD")}});
      continue;
    }
    const auto known = std::ranges::find_if(kPreloads, [&](const Preload& preload) {
      return file.path.find(preload.part) != std::string::npos;
    });
    if (known == kPreloads.end()) continue;
    findings.push_back({"cuda.preload",
                        Severity::kNote,
                        fmt::format("{} stands between programs and the CUDA driver", path),
                        fmt::format("It is {}.", known->what),
                        {"take it out of LD_PRELOAD if it is not meant", {"unset LD_PRELOAD"}},
                        {shown(facts, "LD_PRELOAD")}});
  }
}

}  // namespace

Findings check_cuda_environment(const MachineFacts& facts) {
  Findings findings;
  add_switches(facts, findings);
  add_eager(facts, findings);
  add_order(facts, findings);
  add_nccl_buffers(facts, findings);
  add_preloaded(facts, findings);
  return findings;
}

}  // namespace vram::doctor
