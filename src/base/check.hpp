// VRAM_CHECK: what must hold unless this program has a bug. Never reachable from input. Always on.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace vram {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "vram: internal error: %s does not hold (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace vram

#define VRAM_CHECK(condition) \
  ((condition) ? void(0) : ::vram::check_failed(#condition, __FILE__, __LINE__))
