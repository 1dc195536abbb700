// Text into CSV fields and JSON strings. Whatever bytes go in, valid UTF-8 comes out. Both append.
#pragma once

#include <string>
#include <string_view>

namespace vram::trace {

// RFC 4180: quoted only where it must be.
void append_csv_field(std::string& out, std::string_view text);

// RFC 8259, with its quotation marks.
void append_json_string(std::string& out, std::string_view text);

}  // namespace vram::trace
