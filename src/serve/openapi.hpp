// The description of the API for programs, OpenAPI 3.1. It is openapi.json, which is put into the
// program when it is built; a schema that is empty there is written from the table of figures
// (watch/figures/figure.hpp).
#pragma once

#include <string>
#include <string_view>

namespace vram::serve {

[[nodiscard]] std::string openapi_json();

// openapi.json as it is.
[[nodiscard]] std::string_view openapi_template();

}  // namespace vram::serve
