#include "trace/export/escape.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <iterator>

namespace vram::trace {
namespace {

void append_json_character(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      if (static_cast<unsigned char>(c) < 0x20)
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
      else
        out += c;
  }
}

}  // namespace

void append_csv_field(std::string& out, std::string_view text) {
  const std::string valid = valid_utf8(text);
  // Readers may strip spaces around a bare field, and a lone empty one may vanish with its line.
  const bool is_padded = !valid.empty() && (valid.front() == ' ' || valid.back() == ' ');
  if (!is_padded && valid.find_first_of(",\"\r\n") == valid.npos) {
    out += valid;
    return;
  }
  out += '"';
  for (const char c : valid) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : valid_utf8(text)) append_json_character(out, c);
  out += '"';
}

}  // namespace vram::trace
