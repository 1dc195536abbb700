// The description of the API for programs, OpenAPI 3.1: openapi.json, put into the program when it
// is built.
#pragma once

#include <string_view>

namespace vram::serve {

[[nodiscard]] std::string_view openapi_json();

}  // namespace vram::serve
