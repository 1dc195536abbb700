// Reads exports of vram convert (CSV, JSON lines) into a Trace. One pass over the rows, one thread;
// memory is close to the size of the Trace.
//
// An export contains only events. What it lacks stays absent: the end state, annotations, settings,
// facts about the process, forward stacks and graph nodes. Frames are texts, split at ":LINE ".
#pragma once

#include "base/result.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/open.hpp"
#include "trace/trace.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace vram::trace {

enum class ExportForm { kCsv, kJsonLines };

// By the first bytes (16 are enough); none: it is no export.
[[nodiscard]] std::optional<ExportForm> exported_form(std::span<const std::byte> first_bytes);

// `source` gives the unpacked text. Sets everything in Origin but path and file_bytes. Columns and
// members may come in any order, and unknown ones are left out. kBadInput names the line and what
// was expected there; a last row that ends early makes a truncated recording.
[[nodiscard]] Result<Trace> import_exported(ByteSource& source, ExportForm form,
                                            const OpenOptions& options = {});

}  // namespace vram::trace
