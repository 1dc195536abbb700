#include "trace/import/rows/exported.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/import/rows/forms.hpp"

#include <string_view>

namespace vram::trace {
namespace {

constexpr size_t kMaxRecordBytes = size_t{64} << 20;

// The text between line ends; those within quotes of a CSV are part of it.
class Records {
 public:
  Records(ByteWindow& window, ExportForm form)
      : window_(window), has_quotes_(form == ExportForm::kCsv), at_(window.begin()) {}

  // Valid until the next call; nothing at the end. Errors: those of the source, and kTooLarge.
  [[nodiscard]] Result<std::optional<std::string_view>> next() {
    size_t scanned = 0;
    bool is_quoted = false;
    while (true) {
      const auto there = static_cast<size_t>(window_.end() - at_);
      for (; scanned < there; ++scanned) {
        if (at_[scanned] == '"' && has_quotes_) is_quoted = !is_quoted;
        if (at_[scanned] == '\n' && !is_quoted) return taken(scanned, scanned + 1);
      }
      if (there > kMaxRecordBytes) {
        return fail(Code::kTooLarge, "expected rows of at most {}, found a longer one at byte {}",
                    format_bytes(kMaxRecordBytes), format_count(window_.offset_of(at_)));
      }
      if (!window_.refill(at_, there + 1)) return tl::unexpected(*window_.error());
      at_ = window_.begin();
      if (static_cast<size_t>(window_.end() - at_) > there) continue;
      if (there == 0) return std::nullopt;
      is_open_ = true;
      return taken(there, there);
    }
  }
  // Where the last record began.
  [[nodiscard]] uint64_t begin() const { return begin_; }
  // The last record has no line end: the file may have been cut in it.
  [[nodiscard]] bool is_open() const { return is_open_; }

 private:
  std::string_view taken(size_t length, size_t with_end) {
    begin_ = window_.offset_of(at_);
    std::string_view text(reinterpret_cast<const char*>(at_), length);
    at_ += with_end;
    if (text.ends_with('\r')) text.remove_suffix(1);
    return text;
  }

  ByteWindow& window_;
  bool has_quotes_;
  const uint8_t* at_;
  uint64_t begin_ = 0;
  bool is_open_ = false;
};

Result<> read_rows(Records& records, ExportForm form, Trace& trace) {
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
  Records records(window, form);
  Trace trace;
  VRAM_TRY(read_rows(records, form, trace));
  if (source.is_truncated()) trace.origin.truncated_at_byte = records.begin();
  const std::string_view packing = source.compression();
  trace.origin.format =
      fmt::format("{} of vram convert{}{}", form == ExportForm::kCsv ? "CSV" : "JSON lines",
                  packing.empty() ? "" : ", ", packing);
  trace.origin.notes.push_back(
      {"an export holds events only: the state at the end, annotations, settings and what the "
       "process said of itself are not in it"});
  return trace;
}

}  // namespace vram::trace
