// A settings file (rules, vram top) as parsed text: sections and settings with their positions, not
// yet interpreted. The only code that knows TOML.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::watch {

struct Place {
  uint64_t line = 0;  // from 1 on
  uint64_t column = 0;
};

// A setting's value: exactly one of the optional members is set, or none if its type is not
// supported (a date).
struct Setting {
  std::string key;
  Place place;  // of the value
  Place key_place;
  std::string found;  // "a date", "'abc'", "a list": what errors call the value
  std::optional<bool> flag;
  std::optional<double> number;
  std::optional<std::string> text;
  std::optional<std::vector<Setting>> list;
  std::optional<std::vector<Setting>> table;
};

// The top level, as a table. `name` is what errors call the text: "rules.toml:3:7: …".
[[nodiscard]] Result<Setting> read_toml(std::string_view text, const std::string& name);

}  // namespace vram::watch
