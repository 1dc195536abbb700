// Writes HTML pages: of a recording, of the ranks of a program, of two recordings that are
// compared.
#pragma once

#include "base/result.hpp"
#include "cli/console.hpp"
#include "cli/output.hpp"
#include "pages/page.hpp"
#include "trace/open.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::cli {

// A report's page, of one recording or of ranks: reads and explains each. The device of --device
// comes first. Errors: those of reading, explaining and writing; kBadInput if several recordings
// are not of one program.
struct PageRequest {
  std::vector<std::string> paths;
  std::optional<uint32_t> device = {};
  trace::OpenOptions reading = {};
  Output output = {};
};
[[nodiscard]] Result<> write_report_page(const PageRequest& request, const Console& console);
// The same page, without a file (page_server).
[[nodiscard]] Result<pages::Page> make_report_page(const PageRequest& request,
                                                   const Console& console);

// Two recordings. `comparison`: of them, as vram.diff/1.
[[nodiscard]] Result<> write_diff_page(const PageRequest& request, std::string comparison,
                                       const Console& console);

}  // namespace vram::cli
