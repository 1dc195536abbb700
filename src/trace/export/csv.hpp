// Events as CSV (RFC 4180): one row an event, device after device, for spreadsheets and data
// frames.
#pragma once

#include "base/output_target.hpp"
#include "base/result.hpp"
#include "trace/trace.hpp"

#include <string>

namespace vram::trace {

// Columns: device, device_kind, index (among the device's events), time_ns (unix; empty without a
// clock), action, address (hexadecimal), size_bytes, stream, pool ("first:second"; empty if
// unknown), compile_id, user_metadata, stack ("file:line function" joined by ';', innermost first),
// category (of a name or a block). import/rows reads it. "-" is standard output.
[[nodiscard]] Result<> export_csv(const Trace& trace, const std::string& path,
                                  Replace replace = Replace::kOwn);

}  // namespace vram::trace
