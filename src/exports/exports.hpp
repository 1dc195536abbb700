// Recordings in the formats of other programs: timelines (Perfetto, Chrome), profiles of who held
// memory (pprof, collapsed stacks, speedscope), PyTorch's snapshots, and tables (Parquet). Each
// file appears when it is complete. Pure readers of the recording; any thread.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"
#include "reports/recording.hpp"

#include <span>
#include <string>
#include <string_view>

namespace vram::exports {

// Errors of all: those of AtomicFile. "-" is standard output.
using Write = Result<> (*)(const reports::SharedRecording& recording, const std::string& path,
                           Replace replace);

// Timelines: totals as counters, steps and scopes as slices, each block's life as a slice in a
// lane, and requests that failed as instants.

// Perfetto's trace packets (protobuf). Times are the recording's own, in nanoseconds.
[[nodiscard]] Result<> write_perfetto(const reports::SharedRecording& recording,
                                      const std::string& path, Replace replace);
// Chrome's trace events (JSON). Times are microseconds since the earliest event.
[[nodiscard]] Result<> write_chrome_trace(const reports::SharedRecording& recording,
                                          const std::string& path, Replace replace);

// Profiles: the live requested bytes of every stack at the peak and at the end, and their growth
// over the steady steps (sites/sites.hpp).

// A gzipped profile.proto with the sample types peak_space, peak_objects, end_space, end_objects,
// growth_space and growth_objects, and the labels device, holder, scope, category, stream and pool.
[[nodiscard]] Result<> write_pprof(const reports::SharedRecording& recording,
                                   const std::string& path, Replace replace);
// "outermost;…;innermost BYTES" at the peak.
[[nodiscard]] Result<> write_folded(const reports::SharedRecording& recording,
                                    const std::string& path, Replace replace);
// A profile each for the peak, the end and what grew.
[[nodiscard]] Result<> write_speedscope(const reports::SharedRecording& recording,
                                        const std::string& path, Replace replace);

// PyTorch's own format, with what a recording has and the format has not under keys that PyTorch's
// programs ignore; import_torch_snapshot() reads both. Of recordings without the state at the end,
// that is what a replay of the events ends with. kUnsupported: a device number is too large.
[[nodiscard]] Result<> write_torch_snapshot(const trace::Trace& trace, const std::string& path,
                                            Replace replace);

// Tables.

// Those that write_parquet_tables() writes when none is named.
[[nodiscard]] std::span<const std::string_view> default_tables();

// One table as one Parquet file. kBadInput: there is no table of this name.
[[nodiscard]] Result<> write_parquet_table(const reports::SharedRecording& recording,
                                           std::string_view table, const std::string& path,
                                           Replace replace);
// TABLE.parquet in the folder for each of the tables, which is created if it is missing. All of
// them are complete before the first appears.
[[nodiscard]] Result<> write_parquet_tables(const reports::SharedRecording& recording,
                                            std::span<const std::string_view> tables,
                                            const std::string& folder, Replace replace);

}  // namespace vram::exports
