#include "reports/recording.hpp"

#include "explain/explain.hpp"
#include "reports/trace_tables.hpp"
#include "show/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::reports {
namespace {

using explain::DeviceReport;

std::string_view kind_of(const DeviceReport& device) { return device.is_host ? "host" : "gpu"; }

std::optional<int64_t> begin_of(const DeviceReport& device) {
  return device.begin_unix_ns == 0 ? std::nullopt : std::optional(device.begin_unix_ns);
}

// A table with `rows(device)` rows for each device; `add(batch, device, first)` adds their columns.
template <typename Rows, typename Add>
Table table_of_devices(const SharedRecording& recording, Rows rows, Add add) {
  Table table;
  for (const DeviceReport& device : recording->report.devices) {
    table.parts.push_back({rows(device), [recording, &device, add](uint64_t first, uint64_t count) {
                             Batch batch(count);
                             batch.add("device", [&](uint64_t) { return device.ordinal; });
                             batch.add("device_kind", [&](uint64_t) { return kind_of(device); });
                             add(batch, device, first);
                             return batch;
                           }});
  }
  return table;
}

// A column with a member of each item.
template <typename Item, typename Value>
void add_member(Batch& batch, const char* name, const Item* first, Value Item::* member) {
  batch.add(name, [=](uint64_t row) { return first[row].*member; });
}

void add_peaks(Batch& batch, const explain::Peak& peak) {
  const auto add = [&](const char* name, auto value) {
    batch.add(name, [=](uint64_t) { return value; });
  };
  add("requested_bytes", peak.requested.totals.requested_bytes);
  add("allocated_bytes", peak.allocated.totals.allocated_bytes);
  add("active_bytes", peak.active.totals.active_bytes);
  add("reserved_bytes", peak.reserved.totals.reserved_bytes);
  add("time_ns", peak.requested.time_ns);
  add("event", peak.requested.event);
  add("reserved_time_ns", peak.reserved.time_ns);
  add("reserved_event", peak.reserved.event);
}

struct HolderRow {
  std::string_view at;
  explain::Dimension by = explain::Dimension::kUserFrame;
  const explain::Holder* holder = nullptr;
};

void append_holders(std::string_view at, const explain::State& state,
                    std::vector<HolderRow>& rows) {
  for (const explain::Breakdown& breakdown : state.breakdowns) {
    for (const explain::Holder& holder : breakdown.holders)
      rows.push_back({at, breakdown.by, &holder});
  }
}

std::vector<HolderRow> holder_rows(const DeviceReport& device) {
  std::vector<HolderRow> rows;
  append_holders("peak", device.at_peak, rows);
  append_holders("reserved_peak", device.at_reserved_peak, rows);
  return rows;
}

using MakeTable = Result<Table> (*)(const SharedRecording&);
constexpr std::array<std::string_view, 8> kNames = {
    "runs", "devices", "steps", "holders", "findings", "timeline", "allocations", "events"};
constexpr std::array<MakeTable, kNames.size()> kTables = {
    runs_table,     devices_table,  steps_table,       holders_table,
    findings_table, timeline_table, allocations_table, events_table};

}  // namespace

Result<Table> runs_table(const SharedRecording& recording) {
  Table table;
  table.parts.push_back({1, [recording](uint64_t, uint64_t count) {
                           const explain::Report& report = recording->report;
                           const DeviceReport& main = report.devices[report.main_device];
                           Batch batch(count);
                           const auto add = [&](const char* name, auto value) {
                             batch.add(name, [&](uint64_t) { return value; });
                           };
                           add("path", std::string_view(report.path));
                           add("format", std::string_view(report.format));
                           add("file_bytes", report.file_bytes);
                           add("truncated_at_byte", report.truncated_at_byte);
                           add("clock", show::identifier(report.clock));
                           add("has_stacks", report.has_stacks);
                           add("begin_unix_ns", begin_of(main));
                           add("rank", report.process.rank);
                           add("world_size", report.process.world_size);
                           add("host", std::string_view(report.process.host));
                           add("device", main.ordinal);
                           add("device_kind", kind_of(main));
                           add("vram_version", std::string_view(VRAM_VERSION));
                           return batch;
                         }});
  return table;
}

Result<Table> devices_table(const SharedRecording& recording) {
  return table_of_devices(
      recording, [](const DeviceReport&) { return uint64_t{1}; },
      [](Batch& batch, const DeviceReport& device, uint64_t) {
        add_member(batch, "events", &device, &DeviceReport::events);
        add_member(batch, "allocations", &device, &DeviceReport::allocations);
        add_member(batch, "frees", &device, &DeviceReport::frees);
        add_member(batch, "device_allocs", &device, &DeviceReport::device_allocs);
        add_member(batch, "device_frees", &device, &DeviceReport::device_frees);
        add_member(batch, "stream_count", &device, &DeviceReport::stream_count);
        add_member(batch, "pool_count", &device, &DeviceReport::pool_count);
        batch.add("begin_unix_ns", [&](uint64_t) { return begin_of(device); });
        add_member(batch, "duration_ns", &device, &DeviceReport::duration_ns);
        batch.add("confidence",
                  [&](uint64_t) { return show::identifier(device.verdict.confidence); });
        add_peaks(batch, device.peak);
        add_member(batch, "oom_count", &device, &DeviceReport::oom_count);
      });
}

Result<Table> holders_table(const SharedRecording& recording) {
  return table_of_devices(
      recording, [](const DeviceReport& device) { return holder_rows(device).size(); },
      [](Batch& batch, const DeviceReport& device, uint64_t first) {
        using explain::Holder;
        const std::vector<HolderRow> rows = holder_rows(device);
        const auto add = [&](const char* name, auto member) {
          batch.add(name, [&, member](uint64_t row) { return rows[first + row].holder->*member; });
        };
        batch.add("at", [&](uint64_t row) { return rows[first + row].at; });
        batch.add("by", [&](uint64_t row) { return show::identifier(rows[first + row].by); });
        add("name", &Holder::name);
        add("requested_bytes", &Holder::requested_bytes);
        add("block_bytes", &Holder::block_bytes);
        add("count", &Holder::count);
        add("largest_bytes", &Holder::largest_bytes);
        add("oldest_ns", &Holder::oldest_ns);
        add("before_recording", &Holder::before_recording);
      });
}

Result<Table> steps_table(const SharedRecording& recording) {
  return table_of_devices(
      recording, [](const DeviceReport& device) { return device.steps.steps.size(); },
      [](Batch& batch, const DeviceReport& device, uint64_t first) {
        using explain::Step;
        const Step* steps = device.steps.steps.data() + first;
        batch.add("index", [&](uint64_t row) { return first + row; });
        add_member(batch, "name", steps, &Step::name);
        add_member(batch, "first_event", steps, &Step::first_event);
        add_member(batch, "event_count", steps, &Step::event_count);
        add_member(batch, "begin_ns", steps, &Step::begin_ns);
        add_member(batch, "end_ns", steps, &Step::end_ns);
        add_member(batch, "peak_requested_bytes", steps, &Step::peak_requested_bytes);
        add_member(batch, "peak_reserved_bytes", steps, &Step::peak_reserved_bytes);
        add_member(batch, "peak_event", steps, &Step::peak_event);
        add_member(batch, "end_requested_bytes", steps, &Step::end_requested_bytes);
      });
}

Result<Table> findings_table(const SharedRecording& recording) {
  return table_of_devices(
      recording, [](const DeviceReport& device) { return device.findings.size(); },
      [](Batch& batch, const DeviceReport& device, uint64_t first) {
        using explain::Finding;
        const Finding* findings = device.findings.data() + first;
        batch.add("kind", [&](uint64_t row) { return show::identifier(findings[row].kind); });
        add_member(batch, "bytes", findings, &Finding::bytes);
        add_member(batch, "title", findings, &Finding::title);
        add_member(batch, "detail", findings, &Finding::detail);
        add_member(batch, "advice", findings, &Finding::advice);
        batch.add("line", [&](uint64_t row) {
          const std::string& line = findings[row].line;
          return line.empty() ? std::nullopt : std::optional(line);
        });
        add_member(batch, "peak_saved_bytes", findings, &Finding::saves_bytes);
        add_member(batch, "reserved_saved_bytes", findings, &Finding::saves_reserved_bytes);
      });
}

Result<Table> timeline_table(const SharedRecording& recording) {
  return table_of_devices(
      recording, [](const DeviceReport& device) { return device.timeline.size(); },
      [](Batch& batch, const DeviceReport& device, uint64_t first) {
        using explain::Totals;
        const explain::TimelineSlice* slices = device.timeline.data() + first;
        const auto add = [&](const char* name, uint64_t Totals::* total) {
          batch.add(name, [=](uint64_t row) { return slices[row].largest.*total; });
        };
        add_member(batch, "begin_ns", slices, &explain::TimelineSlice::begin_ns);
        add("requested_bytes", &Totals::requested_bytes);
        add("allocated_bytes", &Totals::allocated_bytes);
        add("active_bytes", &Totals::active_bytes);
        add("reserved_bytes", &Totals::reserved_bytes);
      });
}

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
