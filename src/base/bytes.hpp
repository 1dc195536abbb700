// Formats and parses byte counts and durations. Sizes are binary (1 KiB = 1024 B) everywhere.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace vram {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// To the next multiple of unit; the sum of both must not overflow.
[[nodiscard]] constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// "512 B", "2 MiB", "23.6 GiB": three significant digits; no fraction for integers.
[[nodiscard]] std::string format_bytes(uint64_t bytes);
// "+1.5 MiB", "-3 KiB", "0 B".
[[nodiscard]] std::string format_bytes_signed(int64_t bytes);

// "16GiB", "512 MiB", "20971520", "1.5G" (a bare K, M, G, T is binary, as is KiB; KB, MB, GB, TB
// too: GPU tools mean powers of 1024 by them). Errors name the accepted forms.
[[nodiscard]] Result<uint64_t> parse_bytes(std::string_view text);

// "1.23 s", "456 ms", "7.8 us", "12 ns"; "2 min 5 s" above two minutes.
[[nodiscard]] std::string format_duration_ns(int64_t duration_ns);
// "1.5s", "250ms", "10us", "3min", "42" (bare = seconds).
[[nodiscard]] Result<int64_t> parse_duration_ns(std::string_view text);

// "2026-11-22 09:14:05 UTC" of nanoseconds since 1970; "-" of 0 and below, which is no time.
[[nodiscard]] std::string clock_text(int64_t time_unix_ns);
// "2026-11-22T09:14:05.120Z"
[[nodiscard]] std::string rfc3339(int64_t time_unix_ns);

// "12,345,678"
[[nodiscard]] std::string format_count(uint64_t count);
// "12 blocks", "1 block"; in the language of the user, whose catalogue has the noun in the context
// "counted" (in Chinese with its measure word)
[[nodiscard]] std::string counted(uint64_t count, const char* singular);
// "12.3 %"; 0 of 0 is "–".
[[nodiscard]] std::string format_share(uint64_t part, uint64_t whole);

}  // namespace vram
