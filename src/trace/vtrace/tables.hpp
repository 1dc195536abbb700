// The content of a tables frame: the new entries of the trace's tables, in id order, so that every
// id is known before its first use. The reader interns them and checks that their ids match.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/tables.hpp"
#include "trace/vtrace/events.hpp"

#include <cstdint>
#include <span>

namespace vram::trace {

[[nodiscard]] TableSizes sizes_of(const Tables& tables);

// Writes entries from `written` on into content (overwritten) until all are written or the content
// is large enough for one frame, and advances `written`. Content is empty if there is nothing new.
// kTooLarge: a single entry does not fit in a frame.
[[nodiscard]] Result<> encode_tables(const Tables& tables, TableSizes& written,
                                     PodVector<uint8_t>& content);

// Adds the content's entries. On failure (kBadInput) the tables keep what was added before the bad
// entry.
[[nodiscard]] Result<> decode_tables(std::span<const uint8_t> content, Tables& tables);

}  // namespace vram::trace
