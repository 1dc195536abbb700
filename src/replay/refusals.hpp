// Which of a recording's out-of-memory errors the program survived.
#pragma once

#include "replay/program.hpp"

#include <cstddef>

namespace vram::replay {

// The number of ops up to the last allocation: a request refused before it was caught, and the
// program went on without; one refused after it ended the program.
[[nodiscard]] inline size_t ops_until_last_allocation(const Program& program) {
  size_t count = program.ops.size();
  while (count > 0 && program.ops[count - 1].kind != OpKind::kAlloc) --count;
  return count;
}

}  // namespace vram::replay
