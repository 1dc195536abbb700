#include "base/text.hpp"
#include "trace/allocators.hpp"
#include "trace/import/foreign/foreign.hpp"
#include "trace/import/rows/records.hpp"
#include "trace/import/rows/row.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace vram::trace {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 24 * 3600 * kSecond;

template <typename Number>
Result<Number> number_of(std::string_view text, std::string_view what) {
  return rows::parse_digits<Number>(text, text, 10, what);
}

// "0x7f8a40000000", or decimal.
Result<uint64_t> address_of(std::string_view text, std::string_view what) {
  constexpr int kHexadecimal = 16;
  if (text.starts_with("0x"))
    return rows::parse_digits<uint64_t>(text, text.substr(2), kHexadecimal, what);
  return number_of<uint64_t>(text, what);
}

// A fraction of a second: its digits count from the left.
Result<int64_t> fraction_ns(std::string_view digits) {
  constexpr size_t kDigits = 9;
  std::string padded(digits.substr(0, kDigits));
  padded.resize(kDigits, '0');
  return number_of<int64_t>(padded, "digits of a fraction of a second");
}

// "15:47:02.841961", "15:47:02:841961" in older versions, or seconds since 1970.
class Times {
 public:
  [[nodiscard]] Result<int64_t> parse(std::string_view text) {
    constexpr size_t kClock = 8;  // 15:47:02
    if (text.size() < kClock || text[2] != ':' || text[5] != ':') {
      const size_t dot = std::min(text.find('.'), text.size());
      VRAM_TRY_ASSIGN(const int64_t seconds,
                      number_of<int64_t>(text.substr(0, dot), "a time such as 15:47:02.841961"));
      if (seconds < 0 || seconds > INT64_MAX / kSecond - 1)
        return fail(Code::kBadInput, "expected a time such as 15:47:02.841961, found {} s",
                    seconds);
      if (dot == text.size()) return seconds * kSecond;
      VRAM_TRY_ASSIGN(const int64_t part, fraction_ns(text.substr(dot + 1)));
      return seconds * kSecond + part;
    }
    has_no_date_ = true;
    int64_t seconds = 0;
    constexpr std::array<uint32_t, 3> kMaxParts = {23, 59, 60};  // 60: a leap second
    for (size_t i = 0; i < kMaxParts.size(); ++i) {
      VRAM_TRY_ASSIGN(const auto part,
                      number_of<uint32_t>(text.substr(3 * i, 2), "a time such as 15:47:02.841961"));
      if (part > kMaxParts[i])
        return fail(Code::kBadInput, "expected a time such as 15:47:02.841961, found '{}'", text);
      seconds = seconds * 60 + part;
    }
    int64_t fraction = 0;
    if (text.size() > kClock + 1) {
      VRAM_TRY_ASSIGN(fraction, fraction_ns(text.substr(kClock + 1)));
    }
    // Threads write their rows a little out of order; midnight is a step back by most of a day.
    const int64_t of_day = seconds * kSecond + fraction;
    if (of_day < last_ - kDay / 2) day_ += kDay;
    last_ = of_day;
    return day_ + of_day;
  }
  [[nodiscard]] bool has_no_date() const { return has_no_date_; }

 private:
  bool has_no_date_ = false;
  int64_t last_ = 0;
  int64_t day_ = 0;
};

Result<> read_row(std::string_view record, Times& times, rows::Row& row) {
  constexpr size_t kColumns = 6;
  std::array<std::string_view, kColumns> fields;
  size_t count = 0;
  for (std::string_view rest = record; count < kColumns; ++count) {
    const size_t comma = rest.find(',');
    fields[count] = rest.substr(0, comma);
    if (comma == rest.npos) {
      ++count;
      break;
    }
    rest.remove_prefix(comma + 1);
  }
  if (count != kColumns)
    return fail(Code::kBadInput, "expected {} columns, found {}", kColumns, count);
  VRAM_TRY_ASSIGN(row.time_ns, times.parse(fields[1]));
  const std::string_view action = fields[2];
  VRAM_TRY_ASSIGN(row.size_bytes, number_of<uint64_t>(fields[4], "a size in bytes"));
  VRAM_TRY_ASSIGN(row.stream, address_of(fields[5], "a stream"));
  row.address = 0;
  if (action == "allocate failure") {
    row.action = "oom";  // the log does not say how much was free
    return {};
  }
  if (action != "allocate" && action != "free")
    return fail(Code::kBadInput, "expected allocate, free or allocate failure, found '{}'",
                printable(action.substr(0, 40)));
  row.action = action == "allocate" ? "alloc" : "free_completed";
  VRAM_TRY_ASSIGN(row.address, address_of(fields[3], "an address"));
  return {};
}

// Each block is a segment of its own: the log says nothing about those behind it.
Result<> add_with_segment(rows::Row& row, rows::Collector& collector) {
  if (row.action == "oom") return collector.add(row);
  const bool is_alloc = row.action == "alloc";
  if (is_alloc) row.action = "segment_alloc";
  VRAM_TRY(collector.add(row));
  row.action = is_alloc ? "alloc" : "segment_free";
  return collector.add(row);
}

}  // namespace

Result<Trace> import_rmm_log(ByteSource& source, const OpenOptions& options) {
  ByteWindow window(source, {options.max_decompressed_bytes, options.progress});
  rows::Records records(window, false);
  Trace trace;
  rows::Collector collector(trace);
  rows::Row row;
  Times times;
  VRAM_TRY(records.next());  // the header, by which the format was recognized
  for (uint64_t line = 2;; ++line) {
    VRAM_TRY_ASSIGN(const auto record, records.next());
    if (!record) break;
    if (record->empty()) continue;
    Result<> read = read_row(*record, times, row);
    // Whether a last line without an end is complete cannot be known: a number may go on.
    if (records.is_open()) read = fail(Code::kBadInput, "a line without an end");
    if (read) read = add_with_segment(row, collector);
    if (read) continue;
    if (!records.is_open())
      return fail(read.error().code, "line {}: {}", line, read.error().message);
    trace.origin.truncated_at_byte = records.begin();
  }
  collector.finish();
  if (source.is_truncated()) trace.origin.truncated_at_byte = records.begin();
  trace.origin.format = "RMM log";
  trace.settings.push_back({std::string(kAllocatorSetting), std::string(kUnknownAllocator)});
  trace.origin.notes.push_back({tr_later(
      "RMM's logs name no device, no segments and no free memory: the device is shown as 0, "
      "reserved bytes are those of the blocks, and free bytes at failures are shown as 0")});
  if (times.has_no_date())
    trace.origin.notes.push_back(
        {tr_later("the log has times without a date: dates count from 1970-01-01")});
  return trace;
}

}  // namespace vram::trace
