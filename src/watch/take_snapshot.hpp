// take_snapshot(): combines the figures of sources, kernel and status pages into one snapshot.
//
//     Readings ─▶ bounds ─▶ devices ─┬─▶ sums that must hold ──▶ Snapshot
//                                    └─▶ processes by pid ◀── ProcessTable, Boards
//
// Use it from the table's thread; it reads /proc and the status pages, and waits for no driver.
#pragma once

#include "watch/boards.hpp"
#include "watch/process_table.hpp"
#include "watch/snapshot.hpp"
#include "watch/sources.hpp"

#include <cstdint>
#include <string>

namespace vram::watch {

struct Moment {
  int64_t time_ns = 0;  // since 1970, UTC
  std::string host;
};

[[nodiscard]] Moment current_moment();

// Ends a tick of the table: processes that are no longer named are forgotten.
[[nodiscard]] Snapshot take_snapshot(Moment moment, Readings readings, ProcessTable& table,
                                     Postings& postings);

}  // namespace vram::watch
