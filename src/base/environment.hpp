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

// The same of what names a library to load or a file to write. Empty in a program that has more
// rights than whoever started it (set-user-ID, capabilities of its file): the caller's library
// would have them, too.
[[nodiscard]] inline std::string trusted_environment(const char* name) {
  const char* const value = ::secure_getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace vram
