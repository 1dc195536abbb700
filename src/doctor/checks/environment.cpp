// Variables of CUDA and vram, and those by which TensorFlow and JAX take memory ahead: two programs
// that both do don't fit on one GPU.
#include "base/bytes.hpp"
#include "base/language.hpp"
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
      "VRAM_BOARD",         "VRAM_CUDA_DRIVER",   "VRAM_DRM_ROOT",     "VRAM_DRY",
      "VRAM_FLIGHT",        "VRAM_FLIGHT_STACKS", "VRAM_LIBRARY",      "VRAM_LIMIT",
      "VRAM_NVML",          "VRAM_NVTX",          "VRAM_POOL",         "VRAM_PROGRAM",
      "VRAM_RECORD",        "VRAM_RECORD_FIRST",  "VRAM_RECORD_LIMIT", "VRAM_RECORD_SINCE",
      "VRAM_RECORD_STACKS", "VRAM_ROCM_SMI",      "VRAM_SAID",         "VRAM_STARTUP",
      "VRAM_STRICT"};
  return kNames;
}

constexpr const char* kGrowth = "TF_FORCE_GPU_ALLOW_GROWTH";
constexpr const char* kTfAllocator = "TF_GPU_ALLOCATOR";
constexpr const char* kPreallocate = "XLA_PYTHON_CLIENT_PREALLOCATE";
constexpr const char* kJaxAllocator = "XLA_PYTHON_CLIENT_ALLOCATOR";
constexpr std::array kFractions = {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"};
constexpr double kJaxTakes = 0.75;

bool has_prefix(const MachineFacts& facts, std::string_view prefix) {
  const auto& environment = facts.process.environment;
  const auto found = environment.lower_bound(std::string(prefix));
  return found != environment.end() && found->first.starts_with(prefix);
}

bool uses_jax(const MachineFacts& facts) {
  return has_prefix(facts, "JAX_") || has_prefix(facts, "XLA_PYTHON_CLIENT_") ||
         variable(facts, kFractions[0]);
}
bool uses_tensorflow(const MachineFacts& facts) { return has_prefix(facts, "TF_"); }

bool tensorflow_takes_all(const MachineFacts& facts) {
  return !is_on(variable(facts, kGrowth)) && variable(facts, kTfAllocator) != "cuda_malloc_async";
}
bool jax_takes_ahead(const MachineFacts& facts) {
  const auto allocator = variable(facts, kJaxAllocator);
  return !is_off(variable(facts, kPreallocate)) && allocator != "platform" &&
         allocator != "cuda_async";
}

const char* fraction_name(const MachineFacts& facts) {
  return variable(facts, kFractions[0]) ? kFractions[0] : kFractions[1];
}

void add_fraction(const MachineFacts& facts, Findings& findings) {
  const char* const name = fraction_name(facts);
  const auto value = variable(facts, name);
  if (!value) return;
  const auto fraction = as_fraction(*value);
  const bool is_share = fraction && *fraction > 0 && *fraction <= 0.95;
  if (is_share) return;
  findings.push_back(
      {"jax.fraction",
       Severity::kWarning,
       trf("{} is {}", name, printable(*value)),
       fraction && *fraction > 0.95 && *fraction <= 1
           ? tr("JAX takes that share of the whole GPU at its first use. The CUDA context and the "
                "libraries' own memory come besides, and don't fit any more.")
           : tr("It is a share of the GPU's memory, as .75: JAX fails at its start, or asks for "
                "more "
                "than there is."),
       {tr("leave some for the context"), {fmt::format("export {}=.90", name)}},
       {shown(facts, name)}});
}

void add_jax(const MachineFacts& facts, Findings& findings) {
  add_fraction(facts, findings);
  if (variable(facts, kJaxAllocator) == "platform")
    findings.push_back(
        {"jax.platform_allocator",
         Severity::kWarning,
         tr("JAX asks the driver for each array (XLA_PYTHON_CLIENT_ALLOCATOR=platform)"),
         tr("Each allocation and each free is a call of the driver, the free waits for "
            "the GPU: very slow. It is meant for finding out-of-memory errors."),
         {tr("let it grow as needed, with its own allocator"),
          {fmt::format("unset {}", kJaxAllocator), fmt::format("export {}=false", kPreallocate)}},
         {shown(facts, kJaxAllocator)}});
  const bool names_amount = variable(facts, kFractions[0]) || variable(facts, kFractions[1]) ||
                            variable(facts, kPreallocate);
  if (!uses_jax(facts) || names_amount || !jax_takes_ahead(facts) || uses_tensorflow(facts)) return;
  const uint64_t gpu = largest_memory(facts);
  const auto taken = static_cast<uint64_t>(static_cast<double>(gpu) * kJaxTakes);
  findings.push_back(
      {"jax.preallocates",
       Severity::kNote,
       trf("JAX takes 75 % of each GPU at its first use{}",
           gpu == 0 ? "" : trf(" ({} of {})", format_bytes(taken), format_bytes(gpu))),
       tr("Monitors show it as used, whatever the program needs, and a second program finds a "
          "quarter "
          "of the GPU."),
       {tr("where the GPU is shared"), {fmt::format("export {}=false", kPreallocate)}}});
}

void add_tensorflow(const MachineFacts& facts, Findings& findings) {
  if (is_off(variable(facts, kGrowth)))
    findings.push_back(
        {"tf.takes_all",
         Severity::kNote,
         tr("TensorFlow takes all free memory of each GPU at its first use "
            "(TF_FORCE_GPU_ALLOW_GROWTH=false)"),
         tr("Monitors show it as used, whatever the program needs, and a second program "
            "finds nothing. The variable overrides what the program itself asks for."),
         {tr("where the GPU is shared"), {fmt::format("export {}=true", kGrowth)}},
         {shown(facts, kGrowth)}});
  const auto allocator = variable(facts, kTfAllocator);
  if (allocator && !allocator->empty() && *allocator != "cuda_malloc_async" &&
      *allocator != "cuda_malloc")
    findings.push_back({"tf.unknown_allocator",
                        Severity::kWarning,
                        trf("TensorFlow knows no allocator '{}'", printable(*allocator)),
                        tr("It logs an error and uses its own one, which takes all memory "
                           "ahead."),
                        {"", {fmt::format("export {}=cuda_malloc_async", kTfAllocator)}},
                        {shown(facts, kTfAllocator)}});
}

void add_both(const MachineFacts& facts, Findings& findings) {
  if (!uses_jax(facts) || !uses_tensorflow(facts) || !jax_takes_ahead(facts) ||
      !tensorflow_takes_all(facts))
    return;
  findings.push_back(
      {"frameworks.both_preallocate",
       Severity::kWarning,
       tr("JAX and TensorFlow are set up here, and both take memory ahead"),
       tr("JAX takes 75 % of the GPU and TensorFlow all that is free: in one program, or in two on "
          "one "
          "GPU, the second one has too little. TensorFlow is often there for its data pipeline "
          "only."),
       {tr("let both grow as needed, or keep TensorFlow off the GPU: "
           "tf.config.set_visible_devices([], 'GPU')"),
        {fmt::format("export {}=true", kGrowth), fmt::format("export {}=false", kPreallocate)}}});
}

}  // namespace

Findings check_vram_environment(const MachineFacts& facts) {
  Findings findings;
  for (const auto& [name, value] : facts.process.environment) {
    if (!name.starts_with("VRAM_") || std::ranges::count(known_names(), name) > 0) continue;
    const std::string_view meant = nearest(name, known_names());
    if (meant.empty()) continue;  // another program's
    findings.push_back({"vram.unknown_variable",
                        Severity::kWarning,
                        trf("vram has no variable {}; {} may be meant", printable(name), meant),
                        tr("It does nothing."),
                        {"", {fmt::format("export {}=…", meant)}},
                        {shown(facts, name)}});
  }
  for (const std::string name : {"VRAM_NVML", "VRAM_ROCM_SMI", "VRAM_CUDA_DRIVER"}) {
    if (variable(facts, name).value_or("").empty()) continue;
    findings.push_back({"vram.other_library",
                        Severity::kNote,
                        trf("{} names another library than the driver's", name),
                        tr("What vram says of the GPUs comes from there."),
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
    Costly{
        "cuda.launch_blocking", "CUDA_LAUNCH_BLOCKING", Severity::kWarning,
        tr_later("every kernel is waited for (CUDA_LAUNCH_BLOCKING)"),
        tr_later(
            "The GPU idles while the program prepares the next kernel: small kernels run several "
            "times slower. It is meant for finding the line of an error.")},
    Costly{
        "cuda.cache_disabled", "CUDA_CACHE_DISABLE", Severity::kWarning,
        tr_later("kernels that were compiled for this GPU are not kept (CUDA_CACHE_DISABLE)"),
        tr_later(
            "Programs whose binaries are for another GPU compile theirs at each start, for seconds "
            "to minutes.")},
    Costly{
        "nccl.p2p_disabled", "NCCL_P2P_DISABLE", Severity::kWarning,
        tr_later("GPUs may not copy to each other directly (NCCL_P2P_DISABLE)"),
        tr_later(
            "NCCL goes through the host's memory, which is slower by far where there is NVLink. It "
            "is meant for machines where direct copies hang or lie.")}};

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
       tr("all kernels of all libraries are loaded at the start "
          "(CUDA_MODULE_LOADING=EAGER)"),
       tr("PyTorch and its libraries have several hundred MiB of kernels, of which a "
          "program uses few; each process holds them all on each GPU, outside of any "
          "allocator's figures."),
       {tr("leave it to CUDA, which loads a kernel when it is first used (from 11.7 on)"),
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
       tr("CUDA numbers these GPUs otherwise than nvidia-smi and vram do"),
       trf("There are several kinds ({}). Without CUDA_DEVICE_ORDER CUDA puts "
           "what it takes for the fastest first, so CUDA_VISIBLE_DEVICES=1 "
           "may mean another GPU than nvidia-smi's 1.",
           fmt::join(names, ", ")),
       {tr("number them by their places on the bus"), {"export CUDA_DEVICE_ORDER=PCI_BUS_ID"}}});
}

void add_nccl_buffers(const MachineFacts& facts, Findings& findings) {
  constexpr const char* kVariableName = "NCCL_BUFFSIZE";
  const auto bytes = gpu::drm::as_number(variable(facts, kVariableName).value_or(""));
  if (!bytes || *bytes <= kNcclBuffer) return;
  findings.push_back(
      {"nccl.large_buffers",
       Severity::kNote,
       trf("NCCL's buffers are of {} each", format_bytes(*bytes)),
       tr("NCCL has one for each channel and each connection of each communicator, on "
          "every GPU and outside of any allocator's figures. Its default is 4 MiB."),
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
            tr_later("HAMi's limit on GPU memory: what programs see as the GPU's memory is a "
                     "quota, and its figures differ from the driver's")},
    Preload{"torch_memory_saver",
            tr_later("torch_memory_saver: it takes allocations out of PyTorch's hands "
                     "and does not work with expandable segments")},
    Preload{"kvcached", tr_later("kvcached: it maps PyTorch's memory by itself")}};

void add_preloaded(const MachineFacts& facts, Findings& findings) {
  for (const PreloadedFile& file : facts.process.preloaded) {
    const std::string path = printable(file.path);
    if (!file.exists) {
      findings.push_back(
          {"cuda.preload_missing",
           Severity::kWarning,
           trf("LD_PRELOAD names a file that is not there: {}", path),
           tr("The loader says so at the start of every program and continues without "
              "it."),
           {tr("take it out"), {"unset LD_PRELOAD"}},
           {shown(facts, "LD_PRELOAD")}});
      continue;
    }
    const auto known = std::ranges::find_if(kPreloads, [&](const Preload& preload) {
      return file.path.find(preload.part) != std::string::npos;
    });
    if (known == kPreloads.end()) continue;
    findings.push_back({"cuda.preload",
                        Severity::kNote,
                        trf("{} stands between programs and the CUDA driver", path),
                        trf("It is {}.", known->what),
                        {tr("take it out of LD_PRELOAD if it is not meant"), {"unset LD_PRELOAD"}},
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

Findings check_frameworks(const MachineFacts& facts) {
  Findings findings;
  add_jax(facts, findings);
  add_tensorflow(facts, findings);
  add_both(facts, findings);
  return findings;
}

}  // namespace vram::doctor
