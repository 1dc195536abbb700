// The two forms of an export, a row at a time. Internal to import/rows; one thread at a time.
#pragma once

#include "base/result.hpp"
#include "trace/import/rows/row.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace vram::trace::rows {

// RFC 4180, with a header that names the columns.
class CsvForm {
 public:
  // kBadInput: not quoted as it should be, or columns are missing.
  [[nodiscard]] Result<> read_header(std::string_view record);
  [[nodiscard]] Result<> read(std::string_view record, Row& row);

 private:
  [[nodiscard]] Result<> split(std::string_view record);
  std::vector<size_t> targets_;  // of each column: its place among kColumns, or their count
  std::vector<std::string> fields_;
};

// A JSON object a line: RFC 8259.
[[nodiscard]] Result<> read_json_row(std::string_view record, Row& row);

}  // namespace vram::trace::rows
