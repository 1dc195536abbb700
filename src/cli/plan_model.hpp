// What `vram plan` is asked (cmd_plan.cpp finds out which kind of input it got), and for a model's
// config.json: its options, and the answer.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "cli/output.hpp"
#include "cli/recorded_program.hpp"
#include "plan/model/architecture.hpp"
#include "plan/split/split.hpp"
#include "show/plan/emit.hpp"
#include "trace/open.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::cli {

// What concerns the config.json of a model.
struct ModelRequest {
  std::string config;
  std::optional<plan::Use> use;
  std::optional<uint64_t> batch;
  std::optional<uint64_t> sequence;
  std::optional<plan::Precision> precision;
  std::optional<plan::Quantization> quantization;
  std::optional<plan::Optimizer> optimizer;
  bool checkpoints = false;
  bool accumulates = false;
  std::optional<uint64_t> rank;
  std::optional<plan::Targets> targets;
  std::optional<uint64_t> cached_bytes;  // of a number in the KV cache
  std::optional<plan::Split> split;
  std::optional<show::EmitFormat> emit;
};

// The cards of --gpu. A type of its own, since the option is given once.
struct Cards {
  std::vector<CardMemory> list;
};
// "RTX 4090", "24GiB,48GiB", "4x H100 80GB".
[[nodiscard]] Result<Cards> parse_cards(std::string_view text);

struct PlanRequest {
  std::string input;
  ModelRequest model;
  std::optional<uint64_t> budget_bytes;
  Cards gpus;
  std::string stages;  // a pattern of modules' names; empty: the longest repeated list
  bool json = false;
  Output output;
  trace::OpenOptions reading;
};

// The bytes that a plan may use: --budget, or what a card leaves to an allocator. None if neither
// was given. Several cards are an error: a step runs on one.
[[nodiscard]] Result<std::optional<uint64_t>> budget_of(const PlanRequest& request);

// Into `request`.
[[nodiscard]] std::vector<Option> model_options(ModelRequest& request);
// The first of these options that was given; empty if none was.
[[nodiscard]] std::string_view given_model_option(const ModelRequest& request);

// Prints the answer for the config.json in `text`. kFailed: it does not fit.
[[nodiscard]] Result<int> plan_model(const PlanRequest& request, std::string_view text,
                                     Console& console);

}  // namespace vram::cli
