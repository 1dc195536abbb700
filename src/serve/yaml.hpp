// The YAML of configuration files: maps and lists by indentation, lists in brackets, plain or
// quoted scalars, comments. Everything else (anchors, tags, multi-line text, several documents) is
// refused with its line. A pure function.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::serve {

struct YamlNode {
  enum class Kind : uint8_t { kNull, kText, kList, kMap };
  Kind kind = Kind::kNull;
  size_t line = 0;
  std::string text = {};
  std::vector<YamlNode> items = {};
  std::vector<std::pair<std::string, YamlNode>> entries = {};  // each key once
};

// `name` is what errors call the text.
[[nodiscard]] Result<YamlNode> parse_yaml(std::string_view text, const std::string& name);

}  // namespace vram::serve
