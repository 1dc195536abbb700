// Schedules, and verify(), which runs one in exact bytes and nanoseconds. It shares no arithmetic
// with the solvers, so that each checks the other; every schedule that this module returns has
// passed it.
#pragma once

#include "plan/chain.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vram::plan {

// Schedule: the operations of one training step over a chain, in order. Plain values.
enum class OpKind : uint8_t {
  kForward,           // without keeping anything; its input is freed afterwards
  kForwardKeepInput,  // without keeping anything; its input stays: a checkpoint
  kForwardSave,       // keeps what `option` keeps for backward; its input stays
  kOffload,           // copies the option's offloaded bytes to the host and frees them
  kFetch,             // copies them back
  kBackward,          // uses up what kForwardSave kept, and the input's checkpoint stays
  kDiscard,           // frees the stage's output, a checkpoint
};

struct Operation {
  OpKind kind = OpKind::kForward;
  uint32_t stage = 0;
  uint32_t option = 0;  // of kForwardSave

  friend bool operator==(const Operation&, const Operation&) = default;
};

// What a schedule takes, as verify() measured it.
struct Cost {
  uint64_t peak_bytes = 0;
  size_t peak_operation = 0;  // the first one that reaches the peak
  uint64_t time_ns = 0;
  uint64_t host_peak_bytes = 0;  // offloaded at once
};

struct Schedule {
  std::string solver;  // "rotor", "chen", ...
  std::vector<Operation> operations;
  Cost cost;
};

// Fails if an operation uses what is not there, computes what is already there, or frees what is
// still needed; if not every backward ran once, in order; if anything but the input and gradients
// is left at the end; or if the peak is above the budget.
[[nodiscard]] Result<Cost> verify(const Chain& chain, std::span<const Operation> operations,
                                  uint64_t budget_bytes);

}  // namespace vram::plan
