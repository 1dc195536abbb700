// Escapes text for CSV fields and JSON strings. Any input gives valid UTF-8. Both functions append.
#pragma once

#include <string>
#include <string_view>

namespace vram::trace {

// RFC 4180: quoted only if necessary.
void append_csv_field(std::string& out, std::string_view text);

// RFC 8259, with its quotation marks.
void append_json_string(std::string& out, std::string_view text);

}  // namespace vram::trace
