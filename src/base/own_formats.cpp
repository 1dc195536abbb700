#include "base/own_formats.hpp"

#include <algorithm>

namespace vram {
namespace {

void skip(std::string_view& text, std::string_view characters) {
  text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
}

bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

bool is_json_line(std::string_view head) {
  if (!take(head, kJsonLinesStart)) return false;
  skip(head, "0123456789");
  return head.starts_with(kJsonLinesNext);
}

// A document whose first member names its schema, or an array of them.
bool is_document(std::string_view head) {
  constexpr std::string_view kSpace = " \n";
  if (take(head, "[")) skip(head, kSpace);
  if (!take(head, "{")) return false;
  skip(head, kSpace);
  return head.starts_with(R"("schema": "vram.)");
}

bool is_text(std::string_view tail) {
  if (!tail.ends_with('\n')) return false;
  tail.remove_suffix(1);
  const size_t before = tail.rfind('\n');
  return before != std::string_view::npos && tail.substr(before + 1).starts_with(kTextEnd);
}

}  // namespace

bool is_own_format(std::string_view head, std::string_view tail) {
  return head.starts_with(kVtraceStart) || head.starts_with(kCsvStart) || is_json_line(head) ||
         is_document(head) || is_text(tail);
}

bool is_history(std::string_view head) {
  constexpr std::string_view kSqlite("SQLite format 3\0", 16);
  constexpr size_t kApplicationAt = 68;
  if (!head.starts_with(kSqlite) || head.size() < kApplicationAt + sizeof(uint32_t)) return false;
  uint32_t application = 0;  // big-endian
  for (size_t i = 0; i < sizeof application; ++i)
    application = application << 8 | static_cast<uint8_t>(head[kApplicationAt + i]);
  return application == kHistoryApplication;
}

}  // namespace vram
