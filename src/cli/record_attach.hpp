// Recording a process that knows nothing of vram: one without a flight recorder.
#pragma once

#include "base/result.hpp"
#include "cli/console.hpp"
#include "cli/output.hpp"
#include "watch/record_request.hpp"

#include <cstdint>

namespace vram::cli {

// Records the process, with the Python stacks of allocations if requested, and writes the file.
// Returns the exit code.
[[nodiscard]] Result<int> record_by_attaching(uint32_t pid, const watch::RecordOrder& order,
                                              bool python_stacks, const Output& output,
                                              Console& console);

}  // namespace vram::cli
