// Recording: a recording in memory with its report, from which tables and documents are made. It
// never changes, so any thread may read it.
#pragma once

#include "base/result.hpp"
#include "explain/report.hpp"
#include "reports/table.hpp"
#include "trace/open.hpp"
#include "trace/trace.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace vram::reports {

struct Recording {
  trace::Trace trace;
  explain::Report report;
};

// Reads and explains. Errors: those of trace::open_trace() and explain::explain().
[[nodiscard]] Result<std::shared_ptr<const Recording>> open_recording(
    const std::string& path, const trace::OpenOptions& options);

// "events", "allocations", "devices", "holders", "steps", "findings", "timeline". docs/load.md
// describes their columns.
[[nodiscard]] std::span<const std::string_view> table_names();

// The table refers to the recording and keeps it. kBadInput: there is no table of this
// name. kTooLarge: its stacks.
[[nodiscard]] Result<Table> make_table(const std::shared_ptr<const Recording>& recording,
                                       std::string_view name);

}  // namespace vram::reports
