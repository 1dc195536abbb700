// Environment variables, as text. Not safe while another thread calls setenv: read them at the
// start.
#pragma once

#include <cstdlib>
#include <string>

namespace vram {

// Returns the variable's value, or "" if it is not set.
[[nodiscard]] inline std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

// As environment(), for variables that name a library to load or a file to write. Returns "" if the
// program has more rights than its caller (set-user-ID, file capabilities): a library of the caller
// would get these rights.
[[nodiscard]] inline std::string trusted_environment(const char* name) {
  const char* const value = ::secure_getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace vram
