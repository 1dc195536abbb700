// Chains for tests: random, equal, and builders that fill in the smallest valid peaks.
#pragma once

#include "plan/chain.hpp"

#include <limits>
#include <random>

namespace vram::plan::testing {

using Random = std::mt19937_64;

inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// In [low, high].
[[nodiscard]] uint64_t pick(Random& random, uint64_t low, uint64_t high);

struct ChainShape {
  uint32_t stages = 1;
  uint64_t max_bytes = 20;  // of an activation; what a stage keeps is up to 4 times that
  uint64_t max_ns = 50;
  uint32_t max_options = 1;
  bool has_transients = true;  // peaks above what stays
  bool has_gradients = true;   // of activations and parameters
};

[[nodiscard]] Chain random_chain(Random& random, const ChainShape& shape);

// Stages that all keep `kept_bytes` with an output of `output_bytes`, and no gradients.
[[nodiscard]] Chain equal_chain(uint32_t stages, uint64_t output_bytes, uint64_t kept_bytes);

// Adds an option with the smallest peaks that are valid at the end of a chain without gradients.
void add_option(Stage& stage, uint64_t kept_bytes, uint64_t forward_ns, uint64_t backward_ns);

}  // namespace vram::plan::testing
