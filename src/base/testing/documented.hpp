// What docs/json.md promises, for the tests that hold the JSON against it.
#pragma once

#include "base/json.hpp"
#include "base/testing/paths.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace vram::testing {

using Names = std::set<std::string>;

// A chapter "# SCHEMA" has a table under "### name" for each kind of object; the first column names
// the fields.
inline std::map<std::string, Names> documented(const std::string& schema) {
  std::ifstream file(source_path("docs/json.md"));
  std::map<std::string, Names> result;
  std::string chapter;
  std::string object;
  const std::regex heading("^### (\\w+).*");
  const std::regex row("^\\| `(\\w+)` \\|.*");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (line.starts_with("# ")) chapter = line.substr(2);
    if (chapter != schema) continue;
    if (std::regex_match(line, match, heading)) object = match[1];
    if (std::regex_match(line, match, row)) result[object].insert(match[1]);
  }
  return result;
}

inline Names keys_of(const Json& object) {
  Names names;
  for (const auto& item : object.items()) names.insert(item.key());
  return names;
}

// Checks that each kind of object, at its pointer into the document, has exactly the documented
// fields, and that every documented kind occurs.
inline void expect_documented(const std::string& schema, const Json& json,
                              const std::map<std::string, std::string>& pointers) {
  auto documents = documented(schema);
  for (const auto& [name, pointer] : pointers) {
    const Json::json_pointer place(pointer);
    EXPECT_EQ(keys_of(json.at(place)), documents[name]) << name;
    documents.erase(name);
  }
  EXPECT_TRUE(documents.empty()) << "documented and never produced: " << documents.begin()->first;
}

// Byte counts and times must be integers or unknown.
inline void expect_integers(const Json& value, const std::string& name) {
  if (name == "bytes" || name.ends_with("_bytes") || name.ends_with("_ns")) {
    EXPECT_TRUE(value.is_number_integer() || value.is_null() || name == "per_step_bytes") << name;
  }
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) expect_integers(inner, key);
  } else if (value.is_array()) {
    for (const auto& inner : value) expect_integers(inner, "");
  }
}

}  // namespace vram::testing
