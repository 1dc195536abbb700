// Chain: one training step as a chain of stages, in bytes and nanoseconds. It is the planner's
// input. Stage i computes its output from the output of stage i - 1; stage 0 reads the chain's
// input. Sizes are of storages, rounded as the allocator rounds them. Plain values; copying and
// reading them is safe from any thread.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::plan {

inline constexpr size_t kMaxStages = 2048;
inline constexpr size_t kMaxOptions = 32;                      // of a stage
inline constexpr uint64_t kMaxStageBytes = uint64_t{1} << 50;  // 1 PiB
inline constexpr uint64_t kMaxDurationNs = uint64_t{1} << 41;  // 36 min

// One way to run a stage so that its backward can follow: which bytes stay between the two, and
// what both cost. Peaks are all bytes of the stage while it runs, without its input, other stages
// and the gradients of later parameters.
struct Option {
  std::string name;         // "keep all", "recompute attention", "offload"
  uint64_t kept_bytes = 0;  // on the device between forward and backward, with the output
  uint64_t forward_ns = 0;
  uint64_t backward_ns = 0;         // with everything that is recomputed inside the stage
  uint64_t forward_peak_bytes = 0;  // with what is kept and what is offloaded afterwards
  // With what is kept, what was fetched, the gradients of the output, the input and the parameters.
  uint64_t backward_peak_bytes = 0;
  uint64_t offloaded_bytes = 0;  // copied to the host after forward, and back before backward
  uint64_t offload_ns = 0;       // how much longer the step takes because of these copies
  uint64_t fetch_ns = 0;
  // Of the stage's operations, how many run again inside it; 0 of 0: not known.
  uint32_t again_count = 0;
  uint32_t op_count = 0;
};

struct Stage {
  std::string name;
  uint64_t output_bytes = 0;
  uint64_t gradient_bytes = 0;            // of the output
  uint64_t parameter_gradient_bytes = 0;  // that its backward allocates and leaves
  uint64_t forward_ns = 0;                // without keeping anything for backward
  uint64_t forward_peak_bytes = 0;        // ... with the output, without the input
  std::vector<Option> options;            // at least one
};

struct Chain {
  uint64_t fixed_bytes = 0;  // all the time: parameters, optimizer state, workspaces
  uint64_t input_bytes = 0;  // stays during the whole step
  uint64_t input_gradient_bytes = 0;
  std::vector<Stage> stages;
};

// Total time of a stage that runs once with this option.
[[nodiscard]] uint64_t option_ns(const Option& option);
// The fastest option; of equally fast ones, the one that keeps least.
[[nodiscard]] uint32_t fastest_option(const Stage& stage);

// Checks the limits above and that peaks contain what they must contain. Every other function of
// this module requires a chain that passed, and then no sum of it overflows.
[[nodiscard]] Result<> check(const Chain& chain);

// Chains as JSON (vram.chain/1, documented in docs/plan.md): what other programs write for the
// planner.

// A chain that passed check(). Peaks and gradients that are absent get their smallest valid values;
// unknown keys, numbers below 0 and fractions are errors.
[[nodiscard]] Result<Chain> parse_chain(std::string_view json);

// One JSON document with a newline at its end, with every field. parse_chain() reads it back.
[[nodiscard]] std::string chain_json(const Chain& chain);

}  // namespace vram::plan
