// What `vram plan` is asked. cmd_plan.cpp finds out which kind of input it got, and answers it.
#pragma once

#include "base/result.hpp"
#include "cli/output.hpp"
#include "cli/recorded_program.hpp"
#include "trace/open.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vram::cli {

struct PlanRequest {
  std::string input;
  std::optional<uint64_t> budget_bytes;
  std::optional<CardMemory> gpu;
  std::string stages;  // a pattern of modules' names; empty: the longest repeated list
  bool json = false;
  Output output;
  trace::OpenOptions reading;
};

// The bytes that a plan may use: --budget, or what a card leaves to an allocator. None if neither
// was given.
[[nodiscard]] Result<std::optional<uint64_t>> budget_of(const PlanRequest& request);

}  // namespace vram::cli
