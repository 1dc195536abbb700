// vram status for programs: as JSON (vram.status/1, documented field by field in docs/json.md), and
// as CSV (RFC 4180) for spreadsheets and data frames. Pure functions of the snapshot.
#pragma once

#include "base/json.hpp"
#include "watch/figures/figure.hpp"
#include "watch/snapshot.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

// A JSON document with a final newline. Only ASCII: a process's name cannot affect a terminal, and
// the parser restores it exactly.
[[nodiscard]] std::string status_json(const watch::Snapshot& snapshot);

// The objects of vram.status/1 that other documents have, too: a device, a process (docs/json.md).
[[nodiscard]] Json json_device(const watch::Device& device);
[[nodiscard]] Json json_process(const watch::Process& process);

inline constexpr std::string_view kCsvLineEnd = "\r\n";

// A field of CSV: quoted if necessary; empty if unknown.
[[nodiscard]] std::string csv_text(const watch::figures::Value& value);

// The names of the columns, with their units; and a line end.
[[nodiscard]] std::string status_csv_head();

// A row for each process on each device, and one for a device without; no header, so that rows of
// several snapshots make one file. Empty fields are unknown. Texts are printable; one that a
// spreadsheet would interpret as a formula (it begins with = + - @) is preceded by an apostrophe.
[[nodiscard]] std::string status_csv(const watch::Snapshot& snapshot);

}  // namespace vram::show
