#include "serve/when.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

namespace vram::serve {
namespace {

constexpr double kNsPerS = 1e9;
constexpr double kLatestS = 9e9;  // int64_t counts nanoseconds until then

std::optional<int64_t> seconds_of(std::string_view text) {
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  if (error != std::errc() || stop != end || !(seconds >= 0 && seconds <= kLatestS))
    return std::nullopt;
  return static_cast<int64_t>(std::llround(seconds * kNsPerS));
}

// Takes so many digits off the front.
std::optional<unsigned> take_digits(std::string_view& text, size_t count) {
  unsigned value = 0;
  if (text.size() < count) return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + count, value);
  if (error != std::errc() || stop != text.data() + count) return std::nullopt;
  text.remove_prefix(count);
  return value;
}

// "2026-11-22T09:14:05Z"
std::optional<int64_t> calendar_time(std::string_view text) {
  using namespace std::chrono;
  unsigned parts[6] = {};
  const std::string_view marks = "--T::Z";
  for (size_t i = 0; i < marks.size(); ++i) {
    const auto part = take_digits(text, i == 0 ? 4 : 2);
    if (!part || text.empty() || text.front() != marks[i]) return std::nullopt;
    text.remove_prefix(1);
    parts[i] = *part;
  }
  const year_month_day date(year(static_cast<int>(parts[0])), month(parts[1]), day(parts[2]));
  if (!text.empty() || !date.ok() || parts[0] < 1970 || parts[0] > 2200) return std::nullopt;
  if (parts[3] > 23 || parts[4] > 59 || parts[5] > 60) return std::nullopt;
  const auto time = sys_days(date) + hours(parts[3]) + minutes(parts[4]) + seconds(parts[5]);
  return duration_cast<nanoseconds>(time.time_since_epoch()).count();
}

std::optional<int64_t> before(std::string_view text, int64_t now_ns) {
  if (!text.starts_with('-')) return std::nullopt;
  const auto ago_ns = parse_duration_ns(text.substr(1));
  if (!ago_ns || *ago_ns > now_ns) return std::nullopt;
  return now_ns - *ago_ns;
}

}  // namespace

Result<int64_t> parse_when(std::string_view text, int64_t now_ns) {
  if (text == "now") return now_ns;
  if (const auto time = seconds_of(text)) return *time;
  if (const auto time = calendar_time(text)) return *time;
  if (const auto time = before(text, now_ns)) return *time;
  return fail(Code::kBadInput,
              "expected seconds since 1970, a time as 2026-11-22T09:14:05Z, now, or -90min, found "
              "'{}'",
              printable(text.substr(0, 100)));
}

}  // namespace vram::serve
