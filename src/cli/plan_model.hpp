// `vram plan --model`: the options that concern a model's config.json, and the answer.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "cli/plan_request.hpp"

#include <string_view>
#include <vector>

namespace vram::cli {

// Into `request`.
[[nodiscard]] std::vector<Option> model_options(ModelRequest& request);
// The first of these options that was given; empty if none was.
[[nodiscard]] std::string_view given_model_option(const ModelRequest& request);

// Prints the answer for the config.json in `text`. kFailed: it does not fit.
[[nodiscard]] Result<int> plan_model(const PlanRequest& request, std::string_view text,
                                     Console& console);

}  // namespace vram::cli
