// Environment variables, as text. Not safe while another thread calls setenv: read them at the
// start.
#pragma once

#include <cstdlib>
#include <string>

namespace vram {

// The variable's value; empty where it is not set.
[[nodiscard]] inline std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

}  // namespace vram
