// Chains for tests: random, equal, and builders that fill in the smallest valid peaks; and what the
// solvers are compared with: a search of all schedules, and the dynamic program as it is published.
#pragma once

#include "plan/chain.hpp"

#include <limits>
#include <optional>
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

enum class Freedom : uint8_t {
  // A checkpoint stays until the backward that reads it, and a backward runs as soon as it can.
  kPersistent,
  // Anything may be freed and computed again at any time.
  kAny,
};

// The time of the fastest schedule of a short chain within the budget, by Dijkstra's algorithm over
// the states of memory, without any recurrence. Exponential in the stages. None if there is no
// schedule.
[[nodiscard]] std::optional<uint64_t> fastest_ns(const Chain& chain, uint64_t budget_bytes,
                                                 Freedom freedom);

// The time of the fastest persistent schedule within the budget by the dynamic program of the rotor
// as it is published, with every interval and one slot a byte. O(stages^3 * bytes). None if there
// is none.
[[nodiscard]] std::optional<uint64_t> full_table_ns(const Chain& chain, uint64_t budget_bytes);

}  // namespace vram::plan::testing
