// The beginnings and ends by which vram recognizes its exports for other programs before it
// replaces one (is_own_format()); their writers take them from here.
#pragma once

#include <string_view>

namespace vram {

// Of each, the next characters are the version of the program.
inline constexpr std::string_view kSpeedscopeStart = R"({"exporter":"vram@)";
inline constexpr std::string_view kChromeTraceStart = R"({"otherData":{"writer":"vram )";
// The writer in the footer of a Parquet file, spelled as by the format's other writers.
inline constexpr std::string_view kParquetWriter = "vram version ";

// Plans for other programs. Their JSON has no room for a writer: each key has a meaning for its
// reader. So its first line has white space that no other writer leaves there.
inline constexpr std::string_view kPlanJsonStart = "{ \t \n";
// The next characters are file.hpp's kTextEnd and the version.
inline constexpr std::string_view kPlanYamlStart = "# ";

// The comment in the header of a gzip file, and the description of a Perfetto trace's first packet,
// are file.hpp's kTextEnd and the version, at these offsets.
inline constexpr std::string_view kCommentedGzip = "\x1f\x8b\x08\x10";  // only FCOMMENT is set
inline constexpr size_t kGzipCommentAt = 10;
inline constexpr size_t kPerfettoTextAt = 7;
inline constexpr std::string_view kParquetEnd = "PAR1";

// A pickle of protocol 4: a dictionary whose first key is "vram" (src/exports/torch).
inline constexpr std::string_view kSnapshotStart = "\x80\x04}(\x8c\x04vram";

}  // namespace vram
