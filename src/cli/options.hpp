// From the words of a command line to a command's options.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::cli {

// Fills the targets. `arguments` are the words after the command's name. Errors name the word and
// the next step.
[[nodiscard]] Result<> parse_options(const Manual& manual, std::span<const Option> options,
                                     std::vector<std::string> arguments);

// "12" -> 12, for an option's value. `option` is named in the error.
[[nodiscard]] Result<uint64_t> parse_number(std::string_view option, std::string_view text);

// Parses an option's value such as "16GiB". A number without a unit is refused: it is probably a
// mistake.
[[nodiscard]] Result<uint64_t> parse_size(std::string_view option, std::string_view text);

// "1s", "0.5": a period of at least 0.1 s. `option` is named in the error.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_period(std::string_view option,
                                                            const std::string& text);

}  // namespace vram::cli
