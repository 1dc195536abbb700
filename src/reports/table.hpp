// Table: rows that are made when they are read, as batches in Arrow's layout. A table may be read
// once, by one thread at a time; the batches are independent of it.
#pragma once

#include "reports/batch.hpp"

#include <cstdint>
#include <functional>
#include <vector>
#include <vram/arrow.h>

namespace vram::reports {

// Rows of a table that are made by one function: mostly those of one device.
struct Part {
  uint64_t rows = 0;
  // The rows [first, first + count). Batches of all parts have the same columns, also without rows.
  std::function<Batch(uint64_t first, uint64_t count)> make;
};

struct Table {
  std::vector<Part> parts;  // at least one
};

// Rows of a batch, at most: enough that the cost of a batch does not count, and few enough that
// readers of a stream need little memory.
inline constexpr uint64_t kMaxBatchRows = uint64_t{1} << 18;

// Fills `stream`, which keeps what the table refers to until it is released.
void export_stream(Table table, ArrowArrayStream* stream);

}  // namespace vram::reports
