// vram status as CSV (RFC 4180), for spreadsheets and data frames: a row for each process on each
// device, and one for a device without. A pure function of the snapshot.
#pragma once

#include "watch/snapshot.hpp"

#include <string>

namespace vram::show {

// The names of the columns, with their units; and a line end.
[[nodiscard]] std::string status_csv_head();

// The rows, without the header: rows of several snapshots make one file. Empty fields are unknown.
// Texts are printable; one that a spreadsheet would interpret as a formula (it begins with = + - @)
// is preceded by an apostrophe.
[[nodiscard]] std::string status_csv(const watch::Snapshot& snapshot);

}  // namespace vram::show
