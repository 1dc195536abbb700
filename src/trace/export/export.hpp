// The common part of event exports: the iteration over all events, numbers as text, and stacks as
// text, with each frame's text made once. Internal to export/; use it from one thread at a time.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"
#include "trace/trace.hpp"

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::trace {

// Decimal, or hexadecimal without a prefix.
template <typename Number>
void append_number(std::string& out, Number number, int base = 10) {
  char digits[24];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number, base).ptr;
  out.append(digits, static_cast<size_t>(end - digits));
}

inline void append_address(std::string& out, uint64_t address) {
  out += "0x";
  append_number(out, address, 16);
}

[[nodiscard]] inline std::string_view to_string(DeviceKind kind) {
  return kind == DeviceKind::kHost ? "host" : "gpu";
}

// "file:line function"; unknown parts are left out, and parts beyond kMaxNameBytes truncated.
[[nodiscard]] std::string frame_text(const Tables& tables, FrameId id);

// The texts of frames, each made and escaped at its first use by `make(out, text)`, not for each
// event.
class FrameTexts {
 public:
  using Make = void (*)(std::string& out, std::string_view text);
  FrameTexts(const Tables& tables, Make make)
      : tables_(tables), make_(make), texts_(tables.frames.size()) {}
  [[nodiscard]] const std::string& operator[](FrameId id) {
    std::string& text = texts_[id];
    if (text.empty()) make_(text, frame_text(tables_, id));
    return text;
  }

 private:
  const Tables& tables_;
  Make make_;
  std::vector<std::string> texts_;
};

// Writes head, then what append_row(out, device, number of the event, event) appends for each
// event, to a file that appears when it is complete.
template <typename AppendRow>
[[nodiscard]] Result<> export_rows(const Trace& trace, const std::string& path, Replace replace,
                                   std::string_view head, AppendRow&& append_row) {
  VRAM_TRY_ASSIGN(auto file, AtomicFile::create(path, replace));
  VRAM_TRY(file.write(head));
  std::string row;
  for (const DeviceTrace& device : trace.devices) {
    uint64_t number = 0;
    for (const Event& event : trace.events_of(device)) {
      row.clear();
      append_row(row, device, number++, event);
      VRAM_TRY(file.write(row));
    }
  }
  return file.commit();
}

// Escapes text for CSV fields and JSON strings. Any input gives valid UTF-8. Both functions append.

// RFC 4180: quoted only if necessary.
void append_csv_field(std::string& out, std::string_view text);

// RFC 8259, with its quotation marks.
void append_json_string(std::string& out, std::string_view text);

// kForSpreadsheets: an apostrophe precedes what a spreadsheet would calculate: = + - @, tab and
// carriage return at the beginning of a text, and behind what some take for the end of a field.
// Quotation marks don't prevent that.
enum class CsvTexts : uint8_t { kExact, kForSpreadsheets };

// Events as CSV (RFC 4180): one row an event, device after device, for spreadsheets and data
// frames.

// Columns: device, device_kind, index (among the device's events), time_ns (unix; empty without a
// clock), action, address (hexadecimal), size_bytes, stream, pool ("first:second"; empty if
// unknown), compile_id, user_metadata, stack ("file:line function" joined by ';', innermost first),
// category (of a name or a block). import/rows reads it. "-" is standard output.
[[nodiscard]] Result<> export_csv(const Trace& trace, const std::string& path,
                                  Replace replace = Replace::kOwn,
                                  CsvTexts texts = CsvTexts::kExact);

// Events as JSON lines: one object an event, device after device, for jq, DuckDB and data frames.

// Members: device, device_kind, index (among the device's events), time_ns (unix; null without a
// clock), action, address (a hexadecimal string), size_bytes, stream, pool ([first, second]; null
// if unknown), compile_id, user_metadata and category (of a name or a block; null if there is
// none), stack (array of "file:line function", innermost first). import/rows reads it. "-" is
// standard output.
[[nodiscard]] Result<> export_jsonl(const Trace& trace, const std::string& path,
                                    Replace replace = Replace::kOwn);

}  // namespace vram::trace
