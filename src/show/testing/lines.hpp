// Splits screens into lines, for tests.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show::testing {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// All white space as single spaces: wrapping moves with the words around it.
inline std::string unwrapped(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string word; in >> word;) out += word + ' ';
  return out;
}

// The first line that has it; empty where none does.
inline std::string line_with(const std::string& text, std::string_view part) {
  for (const std::string& line : lines_of(text)) {
    if (line.find(part) != std::string::npos) return line;
  }
  return "";
}

}  // namespace vram::show::testing
