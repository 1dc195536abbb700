// Where tests find files, as absolute paths that the build fills in (cmake/test_paths.cpp.in).
#pragma once

#include <string>
#include <string_view>

namespace vram {

// A file of the source tree: source_path("docs/json.md").
[[nodiscard]] std::string source_path(std::string_view name);
// A file in the build folder.
[[nodiscard]] std::string build_path(std::string_view name);
// A file in tests/data.
[[nodiscard]] inline std::string data_path(std::string_view name) {
  return source_path("tests/data/") + std::string(name);
}

}  // namespace vram
