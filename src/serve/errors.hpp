// What a refusal looks like: vram.error/1, a status, a word for programs, a sentence for people.
// Pure functions.
#pragma once

#include "serve/http.hpp"

#include <string>
#include <string_view>

namespace vram::serve {

// "Not Found"
[[nodiscard]] std::string_view reason_of(int status);
// `message` says what was expected, what was found, what to do. Texts of the client in it come out
// escaped.
[[nodiscard]] Response error_response(int status, std::string_view message);
inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
[[nodiscard]] Response json_response(std::string text);

}  // namespace vram::serve
