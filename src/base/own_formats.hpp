// The first and last bytes of the files that vram writes. They identify vram's files before one is
// replaced; writers take them from here.
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

// Returns whether vram wrote a file with these first and last bytes (which may overlap): a complete
// or truncated recording, an exported one, or a report as JSON or text.
[[nodiscard]] bool is_own_format(std::string_view head, std::string_view tail);

// Returns whether a file with these first bytes is a history, in any state. is_own_format()
// excludes histories, so no report replaces one.
[[nodiscard]] bool is_history(std::string_view head);

}  // namespace vram
