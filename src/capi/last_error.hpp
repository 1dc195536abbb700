// What vram_last_error() says: one text a thread, set by the functions that open something.
#pragma once

#include <string>

namespace vram::capi {

inline std::string& last_error() {
  thread_local std::string text;
  return text;
}

}  // namespace vram::capi
