// Parses the kernel's text files: numbers, lines, "key: value". Strict: unexpected text gives no
// value. Pure functions; no allocation.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vram::gpu::drm {

// No device has that much memory; more is nonsense, and sums of less don't overflow.
inline constexpr uint64_t kMaxBytesOfDevice = uint64_t{1} << 50;

[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

template <typename Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc() && stop == end && !text.empty() ? std::optional(number)
                                                              : std::nullopt;
}

// Decimal digits and nothing else.
[[nodiscard]] inline std::optional<uint64_t> as_number(std::string_view text) {
  return parse_number<uint64_t>(trimmed(text));
}
[[nodiscard]] inline std::optional<uint32_t> as_small_number(std::string_view text) {
  return parse_number<uint32_t>(text);
}
// Of a file that holds one number of bytes.
[[nodiscard]] inline std::optional<uint64_t> as_bytes(std::string_view text) {
  const auto bytes = as_number(text);
  return bytes && *bytes < kMaxBytesOfDevice ? bytes : std::nullopt;
}

template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    visit(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// The value behind "<key><delimiter>" at a line's beginning.
[[nodiscard]] inline std::optional<std::string_view> value_of(std::string_view text,
                                                              std::string_view key,
                                                              char delimiter) {
  std::optional<std::string_view> value;
  for_each_line(text, [&](std::string_view line) {
    if (!value && line.starts_with(key) && line.size() > key.size() &&
        line[key.size()] == delimiter)
      value = trimmed(line.substr(key.size() + 1));
  });
  return value;
}

}  // namespace vram::gpu::drm
