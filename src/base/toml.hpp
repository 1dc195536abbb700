// A settings file (rules, vram top) as parsed text: values with their positions, not yet
// interpreted. Only toml.cpp knows the TOML library.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram {

struct TomlPlace {
  uint64_t line = 0;  // from 1 on
  uint64_t column = 0;
};

// A value with its name, if it has one. Exactly one of the optional members is set, or none if its
// type is not supported (a date).
struct TomlValue {
  std::string key;
  TomlPlace place;  // of the value
  TomlPlace key_place;
  std::string found;  // "a date", "'abc'", "a list": what errors call the value
  std::optional<bool> flag;
  std::optional<double> number;
  std::optional<std::string> text;
  std::optional<std::vector<TomlValue>> list;
  std::optional<std::vector<TomlValue>> table;
};

// The top level, as a table. `name` is what errors call the text: "rules.toml:3:7: …".
[[nodiscard]] Result<TomlValue> read_toml(std::string_view text, const std::string& name);

// "rules.toml:3:7: …": what is wrong with the value at that place.
[[nodiscard]] tl::unexpected<Error> toml_error(const std::string& name, const TomlPlace& place,
                                               const std::string& what);
// A text as a file states it: in quotation marks, escaped.
[[nodiscard]] std::string toml_string(std::string_view text);

}  // namespace vram
