// What `vram plan` is asked, and the functions that answer it for each kind of input. cmd_plan.cpp
// finds out which kind the input is.
#pragma once

#include "base/result.hpp"
#include "cli/console.hpp"
#include "cli/output.hpp"
#include "cli/recorded_program.hpp"
#include "trace/open.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

// Answers from the text of a Hugging Face config.json, and returns the exit code.
[[nodiscard]] Result<int> plan_model(const PlanRequest& request, std::string_view config,
                                     Console& console);

}  // namespace vram::cli
