// A column of a batch as the pages of a Parquet column chunk. Internal to parquet/; pure.
//
// Each chunk is one data page: a bit-packed level for each row if the column may be null, then the
// values that are not null. Columns with a dictionary have a page with the entries that this batch
// uses before it, and indexes as values.
#pragma once

#include "reports/table.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace vram::exports {

// Numbers of parquet.thrift.

enum class ParquetType : int32_t { kBoolean = 0, kInt32 = 1, kInt64 = 2, kDouble = 5, kBytes = 6 };
enum class ParquetEncoding : int32_t { kPlain = 0, kRle = 3, kRleDictionary = 8 };
enum class ParquetPage : int32_t { kData = 0, kDictionary = 2 };

// Of the values of a column by Arrow's name of their type.
[[nodiscard]] ParquetType parquet_type(const reports::Column& column);

struct Page {
  std::string bytes;  // not compressed
  int32_t values = 0;
};

struct ColumnPages {
  bool has_dictionary = false;
  Page dictionary;
  Page data;
};

[[nodiscard]] ColumnPages make_pages(const reports::Column& column);

}  // namespace vram::exports
