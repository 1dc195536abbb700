#include "base/text.hpp"

#include "base/language.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace vram {
namespace {

struct Decoded {
  char32_t point = 0;
  size_t length = 1;
  bool valid = false;
};

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// One UTF-8 sequence at the front of text, by the table of well-formed sequences of the Unicode
// standard (3-7).
Decoded decode(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return {};
  char32_t point = lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size() || (byte(i) & 0xC0) != 0x80) return {0, i, false};
    point = (point << 6) | (byte(i) & 0x3FU);
  }
  static constexpr char32_t kMinBytes[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  const bool valid = point >= kMinBytes[length] && point <= 0x10FFFF && !surrogate;
  return {point, length, valid};
}

bool is_wide(char32_t c) {
  return (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
         (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
         (c >= 0xFFE0 && c <= 0xFFE6) || (c >= 0x1F300 && c <= 0x1F64F) ||
         (c >= 0x1F900 && c <= 0x1F9FF) || (c >= 0x20000 && c <= 0x3FFFD);
}

bool is_combining(char32_t c) {
  return (c >= 0x0300 && c <= 0x036F) || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x20D0 && c <= 0x20FF) || (c >= 0xFE00 && c <= 0xFE0F) ||
         (c >= 0xFE20 && c <= 0xFE2F);
}

int width_of(char32_t c) { return is_combining(c) ? 0 : is_wide(c) ? 2 : 1; }

std::string escaped_control(char32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  const auto number = static_cast<uint32_t>(c);
  return number < 0x100 ? fmt::format("\\x{:02x}", number) : fmt::format("\\u{:04x}", number);
}

// Line and paragraph separators, and what makes later text run backwards.
bool is_reordering(char32_t c) {
  return (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0) || is_reordering(c); }

std::string clean(std::string_view bytes, bool escape_controls) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Decoded next = decode(bytes);
    if (!next.valid) {
      out += kReplacement;
    } else if (escape_controls && is_control(next.point)) {
      out += escaped_control(next.point);
    } else {
      out += bytes.substr(0, next.length);
    }
    bytes.remove_prefix(next.length);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view bytes) { return clean(bytes, true); }

std::string valid_utf8(std::string_view bytes) { return clean(bytes, false); }

Glyph first_glyph(std::string_view utf8) {
  const Decoded next = decode(utf8);
  if (!next.valid) return {next.length, 1, false};
  return {next.length, width_of(next.point), !is_control(next.point)};
}

char32_t first_code_point(std::string_view utf8) { return decode(utf8).point; }

std::string utf8_of(char32_t point) {
  if (point < 0x80) return {static_cast<char>(point)};
  const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  static constexpr std::array<uint32_t, 4> kLead = {0, 0xC0, 0xE0, 0xF0};
  std::string utf8(1, static_cast<char>(kLead[static_cast<size_t>(more)] | point >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) utf8 += static_cast<char>(0x80U | (point >> (6 * i) & 0x3FU));
  return utf8;
}

int display_width(std::string_view utf8) {
  int columns = 0;
  while (!utf8.empty()) {
    const Decoded next = decode(utf8);
    columns += next.valid ? width_of(next.point) : 1;
    utf8.remove_prefix(next.length);
  }
  return columns;
}

std::string shorten_front(std::string_view utf8, int columns) {
  int excess = display_width(utf8) - columns;
  if (excess <= 0) return std::string(utf8);
  if (columns <= 0) return "";
  ++excess;  // room for the ellipsis
  while (excess > 0 && !utf8.empty()) {
    const Decoded next = decode(utf8);
    excess -= next.valid ? width_of(next.point) : 1;
    utf8.remove_prefix(next.length);
  }
  return "…" + std::string(utf8);
}

std::string shorten_end(std::string_view utf8, int columns) {
  if (display_width(utf8) <= columns) return std::string(utf8);
  int room = columns - 1;  // for the ellipsis
  if (room < 0) return "";
  size_t end = 0;
  while (end < utf8.size()) {
    const Decoded next = decode(utf8.substr(end));
    room -= next.valid ? width_of(next.point) : 1;
    if (room < 0) break;
    end += next.length;
  }
  return std::string(utf8.substr(0, end)) + "…";
}

std::string limit_bytes(std::string_view utf8, size_t max_bytes) {
  if (utf8.size() <= max_bytes) return std::string(utf8);
  constexpr size_t kMaxContinuationBytes = 3;
  size_t end = max_bytes;
  const auto is_continuation = [&](size_t at) {
    return (static_cast<unsigned char>(utf8[at]) & 0xc0) == 0x80;
  };
  while (end > 0 && max_bytes - end < kMaxContinuationBytes && is_continuation(end)) --end;
  return std::string(utf8.substr(0, end)) + "…";
}

namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string_view meant = nearest(word, candidates);
  return meant.empty() ? "" : trf(", did you mean '{}'?", meant);
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& byte : out)
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
  return out;
}

}  // namespace vram
