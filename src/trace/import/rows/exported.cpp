#include "trace/import/rows/exported.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/import/rows/forms.hpp"
#include "trace/import/rows/records.hpp"

#include <string_view>

namespace vram::trace {
namespace {

Result<> read_rows(rows::Records& records, ExportForm form, Trace& trace) {
  rows::CsvForm csv;
  rows::Row row;
  rows::Collector collector(trace);
  for (uint64_t line = 1;; ++line) {
    VRAM_TRY_ASSIGN(const auto record, records.next());
    if (!record) break;
    if (record->empty()) continue;
    const bool is_header = form == ExportForm::kCsv && line == 1;
    Result<> read = is_header                  ? csv.read_header(*record)
                    : form == ExportForm::kCsv ? csv.read(*record, row)
                                               : rows::read_json_row(*record, row);
    if (read && !is_header) read = collector.add(row);
    if (read) continue;
    if (!records.is_open() || is_header)
      return fail(read.error().code, "row {}: {}", line, read.error().message);
    trace.origin.truncated_at_byte = records.begin();
  }
  collector.finish();
  return {};
}

}  // namespace

std::optional<ExportForm> exported_form(std::span<const std::byte> first_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(first_bytes.data()),
                              first_bytes.size());
  if (text.starts_with("device,device_ki")) return ExportForm::kCsv;
  if (text.starts_with("{\"device\":")) return ExportForm::kJsonLines;
  return std::nullopt;
}

Result<Trace> import_exported(ByteSource& source, ExportForm form, const OpenOptions& options) {
  ByteWindow window(source, {options.max_decompressed_bytes, options.progress});
  rows::Records records(window, form == ExportForm::kCsv);
  Trace trace;
  VRAM_TRY(read_rows(records, form, trace));
  if (source.is_truncated()) trace.origin.truncated_at_byte = records.begin();
  const std::string_view packing = source.compression();
  trace.origin.format =
      fmt::format("{} of vram convert{}{}", form == ExportForm::kCsv ? "CSV" : "JSON lines",
                  packing.empty() ? "" : ", ", packing);
  trace.origin.notes.push_back({tr_later(
      "an export holds events only: the state at the end, annotations, settings and what the "
      "process said of itself are not in it")});
  return trace;
}

}  // namespace vram::trace
