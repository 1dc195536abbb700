// What can't be set up is warned about; under `vram run --strict` it ends the process.
#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace vram_torch {

// The same exit code as that of vram's own commands where the environment lacks something.
constexpr int kEnvironment = 3;

inline bool is_strict() {
  const char* const setting = std::getenv("VRAM_STRICT");
  return setting != nullptr && std::string_view(setting) == "1";
}

// Called from within PyTorch's allocator, where an exception would be the program's to catch.
template <typename... Words>
void warn_not_set_up(const Words&... words) {
  if (!is_strict()) {
    TORCH_WARN("vram: ", words...);
    return;
  }
  const std::string text = c10::str(words...);
  std::fprintf(stderr, "vram: error: %s; --strict ends the program\n", text.c_str());
  std::fflush(nullptr);
  std::_Exit(kEnvironment);
}

}  // namespace vram_torch
