#include "serve/when.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>

namespace vram::serve {
namespace {

constexpr int64_t kNsPerS = 1'000'000'000;
constexpr size_t kNsDigits = 9;
constexpr int64_t kLatestS = 9'000'000'000;  // int64_t counts nanoseconds until then
constexpr size_t kMaxDigits = 10;

std::optional<int64_t> digits_of(std::string_view text) {
  int64_t value = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// To the nanosecond, which a double has not.
std::optional<int64_t> seconds_of(std::string_view text) {
  const size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  std::string fraction(text.substr(std::min(point + 1, text.size())));
  const bool has_empty_part = whole.empty() || (point < text.size() && fraction.empty());
  if (has_empty_part || whole.size() > kMaxDigits || fraction.size() > kNsDigits)
    return std::nullopt;
  fraction.resize(kNsDigits, '0');
  const auto seconds = digits_of(whole);
  const auto part_ns = digits_of(fraction);
  if (!seconds || !part_ns || *seconds > kLatestS) return std::nullopt;
  return *seconds * kNsPerS + *part_ns;
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
