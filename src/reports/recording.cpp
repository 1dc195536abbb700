#include "reports/recording.hpp"

#include "explain/explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace vram::reports {
namespace {

using MakeTable = Result<Table> (*)(const SharedRecording&);
constexpr std::array<std::string_view, 8> kNames = {
    "runs", "devices", "steps", "holders", "findings", "timeline", "allocations", "events"};
constexpr std::array<MakeTable, kNames.size()> kTables = {
    runs_table,     devices_table,  steps_table,       holders_table,
    findings_table, timeline_table, allocations_table, events_table};

}  // namespace

Result<std::shared_ptr<const Recording>> open_recording(const std::string& path,
                                                        const trace::OpenOptions& options) {
  VRAM_TRY_ASSIGN(auto trace, trace::open_trace(path, options));
  VRAM_TRY_ASSIGN(auto report, explain::explain(trace));
  return std::make_shared<const Recording>(std::move(trace), std::move(report));
}

std::span<const std::string_view> table_names() { return kNames; }

Result<Table> make_table(const SharedRecording& recording, std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    return fail(Code::kBadInput, "there is no table '{}': expected one of {}", name,
                fmt::join(kNames, ", "));
  }
  return kTables[static_cast<size_t>(found - kNames.begin())](recording);
}

}  // namespace vram::reports
