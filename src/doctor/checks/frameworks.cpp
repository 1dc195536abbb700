// TensorFlow and JAX take memory ahead; two programs that both do don't fit on one GPU.
#include "base/bytes.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::doctor {
namespace {

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
       fmt::format("{} is {}", name, printable(*value)),
       fraction && *fraction > 0.95 && *fraction <= 1
           ? "JAX takes that share of the whole GPU at its first use. The CUDA context and the "
             "libraries' own memory come besides, and don't fit any more."
           : "It is a share of the GPU's memory, as .75: JAX fails at its start, or asks for more "
             "than there is.",
       {"leave some for the context", {fmt::format("export {}=.90", name)}},
       {shown(facts, name)}});
}

void add_jax(const MachineFacts& facts, Findings& findings) {
  add_fraction(facts, findings);
  if (variable(facts, kJaxAllocator) == "platform")
    findings.push_back(
        {"jax.platform_allocator",
         Severity::kWarning,
         "JAX asks the driver for each array (XLA_PYTHON_CLIENT_ALLOCATOR=platform)",
         "Each allocation and each free is a call of the driver, the free waits for "
         "the GPU: very slow. It is meant for finding out-of-memory errors.",
         {"let it grow as needed, with its own allocator",
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
       fmt::format(
           "JAX takes 75 % of each GPU at its first use{}",
           gpu == 0 ? "" : fmt::format(" ({} of {})", format_bytes(taken), format_bytes(gpu))),
       "Monitors show it as used, whatever the program needs, and a second program finds a quarter "
       "of the GPU.",
       {"where the GPU is shared", {fmt::format("export {}=false", kPreallocate)}}});
}

void add_tensorflow(const MachineFacts& facts, Findings& findings) {
  if (is_off(variable(facts, kGrowth)))
    findings.push_back(
        {"tf.takes_all",
         Severity::kNote,
         "TensorFlow takes all free memory of each GPU at its first use "
         "(TF_FORCE_GPU_ALLOW_GROWTH=false)",
         "Monitors show it as used, whatever the program needs, and a second program "
         "finds nothing. The variable overrides what the program itself asks for.",
         {"where the GPU is shared", {fmt::format("export {}=true", kGrowth)}},
         {shown(facts, kGrowth)}});
  const auto allocator = variable(facts, kTfAllocator);
  if (allocator && !allocator->empty() && *allocator != "cuda_malloc_async" &&
      *allocator != "cuda_malloc")
    findings.push_back({"tf.unknown_allocator",
                        Severity::kWarning,
                        fmt::format("TensorFlow knows no allocator '{}'", printable(*allocator)),
                        "It logs an error and uses its own one, which takes all memory "
                        "ahead.",
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
       "JAX and TensorFlow are set up here, and both take memory ahead",
       "JAX takes 75 % of the GPU and TensorFlow all that is free: in one program, or in two on "
       "one "
       "GPU, the second one has too little. TensorFlow is often there for its data pipeline "
       "only.",
       {"let both grow as needed, or keep TensorFlow off the GPU: "
        "tf.config.set_visible_devices([], 'GPU')",
        {fmt::format("export {}=true", kGrowth), fmt::format("export {}=false", kPreallocate)}}});
}

}  // namespace

Findings check_frameworks(const MachineFacts& facts) {
  Findings findings;
  add_jax(facts, findings);
  add_tensorflow(facts, findings);
  add_both(facts, findings);
  return findings;
}

}  // namespace vram::doctor
