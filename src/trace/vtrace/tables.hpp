// The content of a tables frame: the entries of the trace's tables that earlier frames did not
// bring, in id order, so that every id is known before its first use. Reading interns them and
// insists on the ids the file gives them.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/tables.hpp"
#include "trace/vtrace/events.hpp"

#include <cstdint>
#include <span>

namespace vram::trace {

[[nodiscard]] TableSizes sizes_of(const Tables& tables);

// Writes entries from `written` on into content (overwritten) until everything is there or the
// content is large enough for one frame, and moves `written` on. Content is left empty where
// nothing is new. kTooLarge: a single entry that no frame could hold.
[[nodiscard]] Result<> encode_tables(const Tables& tables, TableSizes& written,
                                     PodVector<uint8_t>& content);

// Adds the content's entries. On failure (kBadInput) the tables keep what was added before the bad
// entry.
[[nodiscard]] Result<> decode_tables(std::span<const uint8_t> content, Tables& tables);

}  // namespace vram::trace
