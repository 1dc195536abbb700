// Files: all file access of drm/. A missing, unreadable, huge or truncated file is an unknown
// figure, never an error; reads are bounded. Counts opened files, so that tests can check the cost
// of a tick, and that a sleeping device is not read.
//
// Use it from one thread at a time. Never blocks: a file that would block (a pipe in a test's tree)
// is empty.
#pragma once

#include "base/text.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::gpu::drm {

// Where the kernel's files are; tests have their own trees.
struct Roots {
  std::string sys = "/sys";
  std::string proc = "/proc";
};

struct Link {
  uint32_t name = 0;
  std::string target;
};

class Files {
 public:
  static constexpr size_t kMaxBytes = size_t{16} << 10;  // of one file
  static constexpr size_t kMaxEntries = size_t{1} << 16;
  static constexpr size_t kMaxLinks = 4096;

  // Returns the complete lines at the file's beginning: the kernel ends each line with a newline,
  // so a truncated number is not read. Empty if there is nothing to read. Valid until the next
  // call.
  [[nodiscard]] std::string_view read(const std::string& path);
  // Returns a whole file, which may be empty; nothing if it cannot be read completely.
  [[nodiscard]] std::optional<std::string_view> read_whole(const std::string& path);
  // The names in a folder, sorted; those that are numbers of 32 bits.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& folder);
  [[nodiscard]] std::vector<uint32_t> numbers_in(const std::string& folder);
  // The symbolic links in a folder whose names are such numbers.
  [[nodiscard]] std::vector<Link> links_in(const std::string& folder);

  // Opens nothing.
  [[nodiscard]] static bool exists(const std::string& path);
  // The size from stat; 0: unknown. Opens nothing.
  [[nodiscard]] static uint64_t size_of(const std::string& path);

  // Files and folders, tried ones too; and links followed.
  [[nodiscard]] uint64_t opened() const { return opened_; }
  [[nodiscard]] uint64_t links_read() const { return links_read_; }

 private:
  struct Read {
    std::string_view text;
    bool is_complete = false;
  };
  [[nodiscard]] Read read_some(const std::string& path);

  std::array<char, kMaxBytes> buffer_{};
  uint64_t opened_ = 0;
  uint64_t links_read_ = 0;
};

// Parses the kernel's text files: numbers, lines, "key: value". Strict: unexpected text gives no
// value. Pure functions; no allocation.

// No device has that much memory; more is nonsense, and sums of less don't overflow.
inline constexpr uint64_t kMaxBytesOfDevice = uint64_t{1} << 50;

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
