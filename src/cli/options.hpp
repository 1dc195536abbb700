// From the words of a command line to a command's options.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"

#include <span>
#include <string>
#include <vector>

namespace vram::cli {

// Converts the values and stores them. `arguments` are the words after the command's name. Errors
// name the word and the next step.
[[nodiscard]] Result<> parse_options(const Manual& manual, std::span<const Option> options,
                                     std::vector<std::string> arguments);

}  // namespace vram::cli
