// Error responses: vram.error/1, with a status, an identifier and a message. Pure functions.
#pragma once

#include "serve/http.hpp"

#include <string>
#include <string_view>

namespace vram::serve {

// "Not Found"
[[nodiscard]] std::string_view reason_of(int status);
// `message` states what was expected, what was found, and what to do. Client text in it is escaped.
[[nodiscard]] Response error_response(int status, std::string_view message);
inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
[[nodiscard]] Response json_response(std::string text);

}  // namespace vram::serve
