// The solvers: each a pure function from a chain and a budget to a schedule, which verify() has
// passed. All require a chain that passed check(). Where no schedule of a solver fits, its error
// says how much it needs. Deterministic. Safe from any thread.
#pragma once

#include "plan/chain.hpp"
#include "plan/verify.hpp"

namespace vram::plan {

// Every stage keeps what its fastest option keeps: no recomputation.
[[nodiscard]] Result<Schedule> keep_all(const Chain& chain, uint64_t budget_bytes);

// Every stage keeps its input only, and runs again for its backward; the last one runs once. What
// torch.utils.checkpoint around every block does.
[[nodiscard]] Result<Schedule> checkpoint_every_stage(const Chain& chain, uint64_t budget_bytes);

// Chen et al. 2016, for stages of different sizes: cuts the chain into segments of about equal
// bytes, keeps their inputs, and runs each segment again for its backward. Of many thresholds, the
// fastest schedule that fits.
[[nodiscard]] Result<Schedule> chen(const Chain& chain, uint64_t budget_bytes);

// Revolve (Griewank and Walther 2000): the optimum for equal stages, by the closed form, if no
// stage can keep more than its output until the whole backward begins. Other chains are taken as
// one of equal stages, each as large as the largest.
[[nodiscard]] Result<Schedule> revolve(const Chain& chain, uint64_t budget_bytes);
// How many runs of a stage, beyond one for each backward, Revolve needs for `length` equal stages
// and `slots` activations, the chain's input not among them. Requires length >= 1, and slots >= 1
// if length > 1.
[[nodiscard]] uint64_t revolve_runs(uint64_t length, uint64_t slots);

// A lower bound on the time of every schedule within a budget, also of those that no solver here
// considers. When the last stage's backward begins, each earlier stage either has kept what one of
// its options keeps, or its forward will run again. Which of them may keep is a knapsack; its
// linear relaxation bounds the time that is added. O(options * log(options)).
[[nodiscard]] uint64_t lower_bound_ns(const Chain& chain, uint64_t budget_bytes);

}  // namespace vram::plan
