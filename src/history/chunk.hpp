// Chunk: some time of one device's (or process's) figures, in columns, and its form in the file,
// which docs/history.md describes. A chunk of samples has a row for each sample; one of minutes or
// hours a row for each of these, with minimum, maximum, sum and count, so that chunks add up
// exactly.
//
// decode() takes any bytes: what no encoder wrote is an error, and never more memory than
// kMaxRows need. Values; any thread.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::history {

// Samples of one metric taken together. A count of 0: unknown.
struct Sums {
  int64_t minimum = 0;
  int64_t maximum = 0;
  int64_t sum = 0;
  uint64_t count = 0;

  [[nodiscard]] static Sums of(int64_t value) { return {value, value, value, 1}; }
  // On overflow, `more` is left out completely.
  void add(const Sums& more);
  bool operator==(const Sums&) const = default;
};

struct Column {
  uint32_t metric = 0;
  std::vector<Sums> rows;  // as many as the chunk has times
  bool operator==(const Column&) const = default;
};

inline constexpr size_t kMaxRows = 4096;
inline constexpr size_t kMaxColumns = 64;

struct Chunk {
  // Since the chunk's beginning; may decrease if the clock was set back.
  std::vector<int64_t> times_ms;
  std::vector<Column> columns;
  bool operator==(const Chunk&) const = default;

  // The cell of the last row.
  [[nodiscard]] Sums& last_of(uint32_t metric);
  // Adds a row without values, up to kMaxRows.
  void add_row(int64_t time_ms);
};

// Omits columns without values. Counts above 1 are lost unless `summed`.
[[nodiscard]] std::vector<uint8_t> encode(const Chunk& chunk, bool summed);
// All columns, or the one of `only` (a metric's number), which may be missing.
[[nodiscard]] Result<Chunk> decode(std::span<const uint8_t> bytes, uint32_t only = 0);

}  // namespace vram::history
