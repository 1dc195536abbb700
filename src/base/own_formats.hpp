// How the files that vram writes begin or end: by this they are known again when something is about
// to be written in their place. Whoever writes such a file takes its beginning from here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vram {

inline constexpr std::string_view kVtraceStart = "\x89vtrace\n";
inline constexpr std::string_view kCsvStart = "device,device_kind,index,time_ns,";
// {"device":0,"device_kind":"gpu", …
inline constexpr std::string_view kJsonLinesStart = R"({"device":)";
inline constexpr std::string_view kJsonLinesNext = R"(,"device_kind":")";
// The last line of a text, after the line's beginning the version of the program.
inline constexpr std::string_view kTextEnd = "Written by vram ";

// In the header of an SQLite database: whose it is. "VRAM": a history.
inline constexpr uint32_t kHistoryApplication = 0x5652414d;

// As much of both ends of a file as is_own_format() needs.
inline constexpr size_t kFormatBytes = 256;

// Whether a file of these first and last bytes (which may overlap) is one that vram wrote: a
// recording, whole or truncated, an export of one, or a report as JSON or text.
[[nodiscard]] bool is_own_format(std::string_view head, std::string_view tail);

// Whether a file of these first bytes is a history, whatever state the rest is in. A history is
// none of the files above: no report takes its place.
[[nodiscard]] bool is_history(std::string_view head);

}  // namespace vram
