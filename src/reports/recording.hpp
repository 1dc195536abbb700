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

// "runs", "devices", "steps", "holders", "findings", "timeline", "allocations", "events".
// docs/load.md describes their columns.
[[nodiscard]] std::span<const std::string_view> table_names();

// The table refers to the recording and keeps it. kBadInput: there is no table of this
// name. kTooLarge: its stacks.
[[nodiscard]] Result<Table> make_table(const std::shared_ptr<const Recording>& recording,
                                       std::string_view name);

// The tables of a recording. Each keeps the recording as long as it exists. Those with stacks may
// fail with kTooLarge.
using SharedRecording = std::shared_ptr<const Recording>;

// One row: the file, the process that was recorded, and the device that the report leads with.
[[nodiscard]] Result<Table> runs_table(const SharedRecording& recording);

// The parts of the report that are lists or figures, under the names of docs/json.md.
[[nodiscard]] Result<Table> devices_table(const SharedRecording& recording);
// The holders of every breakdown, at the peaks of requested and of reserved bytes.
[[nodiscard]] Result<Table> holders_table(const SharedRecording& recording);
[[nodiscard]] Result<Table> steps_table(const SharedRecording& recording);
[[nodiscard]] Result<Table> findings_table(const SharedRecording& recording);
[[nodiscard]] Result<Table> timeline_table(const SharedRecording& recording);

}  // namespace vram::reports
