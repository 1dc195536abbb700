// The report for programs: vram.report/1, documented field by field in docs/json.md. A pure
// function of the report.
#pragma once

#include "explain/report.hpp"

#include <cstddef>
#include <string>

namespace vram::show {

struct JsonOptions {
  size_t top = 50;  // holders listed in each breakdown; 0 = all
};

// A JSON document with a final newline. Keys have a fixed order; unknown values are null, never 0.
[[nodiscard]] std::string report_json(const explain::Report& report,
                                      const JsonOptions& options = {});

}  // namespace vram::show
