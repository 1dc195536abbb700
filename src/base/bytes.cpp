#include "base/bytes.hpp"

#include "base/text.hpp"
#include "base/time.hpp"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <optional>

namespace vram {
namespace {

constexpr std::string_view kBlanks = " \t\n\v\f\r";

// Three significant digits without a trailing ".0": 9.77, 97.7, 977, 2.
std::string three_digits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (decimals > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

struct NumberAndUnit {
  double number = 0;
  std::string unit;  // lower case
};

std::optional<NumberAndUnit> split_number(std::string_view text) {
  text = trimmed(text, kBlanks);
  NumberAndUnit result;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result.number,
                                            std::chars_format::fixed);
  if (error != std::errc() || !(result.number >= 0 && std::isfinite(result.number))) {
    return std::nullopt;
  }
  for (const char c : trimmed(text.substr(static_cast<size_t>(end - text.data())), kBlanks)) {
    result.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

// "", "b" -> 0; "k", "kb", "kib" -> 1; ... as the power of 1024.
std::optional<int> binary_power(std::string_view unit) {
  if (unit.empty() || unit == "b") return 0;
  const size_t power = std::string_view("kmgtp").find(unit.front());
  const std::string_view rest = unit.substr(1);
  if (power == std::string_view::npos) return std::nullopt;
  if (!rest.empty() && rest != "b" && rest != "ib") return std::nullopt;
  return static_cast<int>(power) + 1;
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / static_cast<double>(kKiB);
  size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= static_cast<double>(kKiB);
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), kUnits[unit]);
}

std::string format_bytes_signed(int64_t bytes) {
  if (bytes == 0) return "0 B";
  const bool negative = bytes < 0;
  const uint64_t magnitude =
      negative ? 0 - static_cast<uint64_t>(bytes) : static_cast<uint64_t>(bytes);
  return (negative ? "-" : "+") + format_bytes(magnitude);
}

Result<uint64_t> parse_bytes(std::string_view text) {
  const auto parts = split_number(text);
  const auto power = parts ? binary_power(parts->unit) : std::nullopt;
  if (!power) {
    return fail(Code::kBadInput, "expected a size such as 16GiB, 512MiB or 1048576, found '{}'",
                text);
  }
  const double bytes = std::ldexp(parts->number, 10 * *power);
  if (bytes >= 0x1p63) {
    return fail(Code::kBadInput, "the size '{}' is larger than any memory (limit 8 EiB)", text);
  }
  return static_cast<uint64_t>(std::llround(bytes));
}

std::string format_duration_ns(int64_t duration_ns) {
  if (duration_ns < 0) return "-" + format_duration_ns(-std::max(duration_ns, -INT64_MAX));
  const auto value = static_cast<double>(duration_ns);
  if (value < 1e3) return fmt::format("{} ns", duration_ns);
  if (value < 999.5e3) return three_digits(value / 1e3) + " us";
  if (value < 999.5e6) return three_digits(value / 1e6) + " ms";
  if (value < 120e9) return three_digits(value / 1e9) + " s";
  const int64_t seconds = duration_ns / kSignedSecondNs;
  if (seconds < 7200) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

Result<int64_t> parse_duration_ns(std::string_view text) {
  struct Unit {
    std::string_view name;
    double ns;
  };
  static constexpr std::array kUnits = {Unit{"", 1e9},     Unit{"s", 1e9},   Unit{"ms", 1e6},
                                        Unit{"us", 1e3},   Unit{"ns", 1},    Unit{"m", 60e9},
                                        Unit{"min", 60e9}, Unit{"h", 3600e9}};
  if (const auto parts = split_number(text)) {
    for (const Unit& unit : kUnits) {
      if (unit.name == parts->unit && parts->number * unit.ns < 0x1p62) {
        return static_cast<int64_t>(std::llround(parts->number * unit.ns));
      }
    }
  }
  return fail(Code::kBadInput, "expected a time such as 1.5s, 250ms or 3min, found '{}'", text);
}

std::string clock_text(int64_t time_unix_ns) {
  if (time_unix_ns <= 0) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                     fmt::gmtime(std::time_t{time_unix_ns / kSignedSecondNs}));
}

std::string rfc3339(int64_t time_unix_ns) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::time_t{time_unix_ns / kSignedSecondNs}),
                     time_unix_ns % kSignedSecondNs / 1'000'000);
}

std::string format_count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string counted(uint64_t count, const char* singular) {
  if (is_translated()) {
    // Languages with other plural forms than English need ngettext's tables first.
    const char* const translated = tr_context("counted", singular);
    if (translated != singular) return fmt::format("{} {}", format_count(count), translated);
  }
  return fmt::format("{} {}{}", format_count(count), singular, count == 1 ? "" : "s");
}

std::string format_share(uint64_t part, uint64_t whole) {
  if (whole == 0) return "–";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace vram
