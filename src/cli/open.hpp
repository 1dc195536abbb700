// Opening a recording for a command: the options shared by all commands that read one, and progress
// while it is read.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "trace/open.hpp"

#include <string>

namespace vram::cli {

// --max-size, into `target`.
[[nodiscard]] Option max_size_option(std::string& target);

// open_trace(), with a progress line. `max_size` is the option's text; empty for the default.
[[nodiscard]] Result<trace::Trace> open_with_progress(const std::string& path,
                                                      const std::string& max_size,
                                                      const Console& console);

}  // namespace vram::cli
