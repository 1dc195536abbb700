#include "history/chunk.hpp"

#include "base/result.hpp"
#include "base/varint.hpp"

#include <algorithm>
#include <bit>
#include <functional>

namespace vram::history {
namespace {

enum Form : uint64_t { kValues = 1, kSums = 2 };

using Bytes = PodVector<uint8_t>;

int64_t minus(int64_t a, int64_t b) {
  return wrapping_difference(static_cast<uint64_t>(a), static_cast<uint64_t>(b));
}
int64_t plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t times(int64_t a, uint64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) * b); }

// Differences in units of the largest power of two that divides all numbers; after a difference of
// 0 follows how many more of them.
void put_numbers(Bytes& out, std::span<const int64_t> numbers) {
  uint64_t bits = 0;
  for (const int64_t number : numbers) bits |= static_cast<uint64_t>(number);
  const int shift = bits == 0 ? 0 : std::countr_zero(bits);
  put_varint(out, static_cast<uint64_t>(shift));
  int64_t last = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t number = numbers[i] >> shift;
    put_signed(out, minus(number, last));
    if (number == last) {
      size_t more = 0;
      while (i + 1 < numbers.size() && numbers[i + 1] >> shift == last) ++i, ++more;
      put_varint(out, more);
    }
    last = number;
  }
}

std::vector<int64_t> get_numbers(VarintReader& in, size_t count) {
  const uint64_t shift = in.get();
  if (shift > 63) in.fail();
  std::vector<int64_t> numbers;
  numbers.reserve(count);
  int64_t last = 0;
  while (numbers.size() < count && !in.failed()) {
    const int64_t difference = in.get_signed();
    last = plus(last, difference);
    const uint64_t more = difference == 0 ? in.get() : 0;
    if (more > count - numbers.size() - 1) {
      in.fail();
      break;
    }
    numbers.insert(numbers.end(), more + 1, times(last, uint64_t{1} << shift));
  }
  return numbers;
}

void put_times(Bytes& out, std::span<const int64_t> times_ms) {
  std::vector<int64_t> gaps;
  int64_t last = 0;
  for (const int64_t time_ms : times_ms) {
    gaps.push_back(minus(time_ms, last));
    last = time_ms;
  }
  put_numbers(out, gaps);
}

std::vector<int64_t> get_times(VarintReader& in, size_t count) {
  std::vector<int64_t> times_ms = get_numbers(in, count);
  int64_t last = 0;
  for (int64_t& time_ms : times_ms) last = time_ms = plus(last, time_ms);
  return times_ms;
}

// Run lengths in turn of rows that are known and rows that are not.
void put_presence(Bytes& out, std::span<const Sums> rows) {
  bool is_known = true;
  for (size_t i = 0; i < rows.size(); is_known = !is_known) {
    const size_t first = i;
    while (i < rows.size() && (rows[i].count > 0) == is_known) ++i;
    put_varint(out, i - first);
  }
}

std::vector<bool> get_presence(VarintReader& in, size_t count) {
  std::vector<bool> presence;
  bool is_known = true;
  while (presence.size() < count && !in.failed()) {
    const uint64_t run = in.get();
    if (run > count - presence.size()) in.fail();
    if (!in.failed()) presence.insert(presence.end(), run, is_known);
    is_known = !is_known;
  }
  return presence;
}

template <typename Of>
void put_each(Bytes& out, std::span<const Sums> rows, Of of) {
  std::vector<int64_t> numbers;
  for (const Sums& row : rows)
    if (row.count > 0) numbers.push_back(of(row));
  put_numbers(out, numbers);
}

void put_rows(Bytes& out, std::span<const Sums> rows, bool summed) {
  put_presence(out, rows);
  put_each(out, rows, [](const Sums& row) { return row.minimum; });
  if (!summed) return;
  put_each(out, rows, [](const Sums& row) { return static_cast<int64_t>(row.count); });
  put_each(out, rows, [](const Sums& row) { return minus(row.maximum, row.minimum); });
  put_each(out, rows,
           [](const Sums& row) { return minus(row.sum, times(row.minimum, row.count)); });
}

std::vector<Sums> get_rows(VarintReader& in, size_t count, bool summed) {
  const std::vector<bool> presence = get_presence(in, count);
  if (in.failed()) return {};
  const auto known = static_cast<size_t>(std::ranges::count(presence, true));
  const std::vector<int64_t> minima = get_numbers(in, known);
  const std::vector<int64_t> counts = summed ? get_numbers(in, known) : std::vector<int64_t>();
  const std::vector<int64_t> spreads = summed ? get_numbers(in, known) : std::vector<int64_t>();
  const std::vector<int64_t> excesses = summed ? get_numbers(in, known) : std::vector<int64_t>();
  if (!in.done()) return {};
  std::vector<Sums> rows(count);
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!presence[i]) continue;
    const size_t at = next++;
    rows[i] = Sums::of(minima[at]);
    if (!summed) continue;
    rows[i].count = static_cast<uint64_t>(counts[at]);
    rows[i].maximum = plus(minima[at], spreads[at]);
    rows[i].sum = plus(times(minima[at], rows[i].count), excesses[at]);
  }
  return rows;
}

Result<Column> get_column(VarintReader& in, size_t rows, uint64_t form, uint32_t only) {
  Column column;
  const uint64_t metric = in.get();
  VarintReader body(in.take(in.get()));
  if (in.failed() || metric == 0 || metric > UINT32_MAX)
    return fail(Code::kBadInput, "expected a column of figures, found an end or no metric");
  column.metric = static_cast<uint32_t>(metric);
  if (only != 0 && only != metric) return column;
  column.rows = get_rows(body, rows, form == kSums);
  if (!body.done())
    return fail(Code::kBadInput, "column {} does not have the {} rows of its chunk", metric, rows);
  return column;
}

bool is_known(const Column& column) {
  return std::ranges::any_of(column.rows, [](const Sums& row) { return row.count > 0; });
}

}  // namespace

void Sums::add(const Sums& more) {
  int64_t total = 0;
  if (more.count == 0) return;
  if (count == 0) {
    *this = more;
    return;
  }
  if (__builtin_add_overflow(sum, more.sum, &total)) return;
  sum = total;
  count += more.count;
  minimum = std::min(minimum, more.minimum);
  maximum = std::max(maximum, more.maximum);
}

Sums& Chunk::last_of(uint32_t metric) {
  for (Column& column : columns)
    if (column.metric == metric) return column.rows.back();
  columns.push_back({metric, std::vector<Sums>(times_ms.size())});
  return columns.back().rows.back();
}

void Chunk::add_row(int64_t time_ms) {
  VRAM_CHECK(times_ms.size() < kMaxRows);
  times_ms.push_back(time_ms);
  for (Column& column : columns) column.rows.emplace_back();
}

std::vector<uint8_t> encode(const Chunk& chunk, bool summed) {
  Bytes out;
  Bytes body;
  put_varint(out, summed ? kSums : kValues);
  put_varint(out, chunk.times_ms.size());
  put_times(out, chunk.times_ms);
  put_varint(out, static_cast<uint64_t>(std::ranges::count_if(chunk.columns, is_known)));
  for (const Column& column : chunk.columns) {
    if (!is_known(column)) continue;
    body.truncate(0);
    put_rows(body, column.rows, summed);
    put_varint(out, column.metric);
    put_varint(out, body.size());
    out.append(body.data(), body.size());
  }
  return {out.begin(), out.end()};
}

Result<Chunk> decode(std::span<const uint8_t> bytes, uint32_t only) {
  VarintReader in(bytes);
  const uint64_t form = in.get();
  const uint64_t rows = in.get();
  if (in.failed() || (form != kValues && form != kSums))
    return fail(Code::kBadInput, "expected a chunk of form 1 or 2, found form {}", form);
  if (rows > kMaxRows)
    return fail(Code::kBadInput, "a chunk has at most {} rows, this one {}", kMaxRows, rows);
  Chunk chunk;
  chunk.times_ms = get_times(in, rows);
  const uint64_t columns = in.get_count();
  if (in.failed() || columns > kMaxColumns)
    return fail(Code::kBadInput, "expected times and at most {} columns, found an end or {}",
                kMaxColumns, columns);
  for (uint64_t i = 0; i < columns; ++i) {
    VRAM_TRY_ASSIGN(auto column, get_column(in, rows, form, only));
    if (only == 0 || only == column.metric) chunk.columns.push_back(std::move(column));
  }
  if (!in.done()) return fail(Code::kBadInput, "{} bytes follow the last column", in.left());
  return chunk;
}

}  // namespace vram::history
