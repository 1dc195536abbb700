#include "base/process_stat.hpp"

#include <charconv>
#include <concepts>

namespace vram {
namespace {

// Takes a field with the space behind it: what ends without one may be cut off.
std::optional<std::string_view> next_field(std::string_view& text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view field = text.substr(0, space);
  text.remove_prefix(space + 1);
  return field;
}

template <std::unsigned_integral T>
bool is_number(std::string_view text, T& number) {
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && last == end;
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  // "7 (any name, with ) and spaces) S 1 …": the space after the last bracket ends field 2.
  const size_t open = text.find('(');
  const size_t close = text.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  ProcessStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  text.remove_prefix(close + 2);
  for (int number = 3; number <= 22; ++number) {
    const auto field = next_field(text);
    if (!field) return std::nullopt;
    if (number == 3) stat.has_ended = *field == "Z" || *field == "X";
    if (number == 4 && !is_number(*field, stat.parent_pid)) return std::nullopt;
    if (number == 22 && !is_number(*field, stat.start_ticks)) return std::nullopt;
  }
  return stat;
}

}  // namespace vram
