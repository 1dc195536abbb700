// Events as JSON lines: one object an event, device after device, for jq, DuckDB and data frames.
#pragma once

#include "base/output_target.hpp"
#include "base/result.hpp"
#include "trace/trace.hpp"

#include <string>

namespace vram::trace {

// Members: device, device_kind, index (among the device's events), time_ns (unix; null without a
// clock), action, address (a hexadecimal string), size_bytes, stream, pool ([first, second]; null
// if unknown), compile_id, user_metadata and category (of a name or a block; null if there is
// none), stack (array of "file:line function", innermost first). import/rows reads it. "-" is
// standard output.
[[nodiscard]] Result<> export_jsonl(const Trace& trace, const std::string& path,
                                    Replace replace = Replace::kOwn);

}  // namespace vram::trace
