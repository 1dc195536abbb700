// Shrinking: the failing part of a random program that fails still, by delta debugging (Zeller and
// Hildebrandt, 2002): pieces are left out, ever smaller ones, as long as what remains fails. Any
// part of the program must be one, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vram::pool {

template <typename Op, typename Fails>
std::vector<Op> shrink(std::vector<Op> program, const Fails& fails) {
  for (size_t size = std::max<size_t>(program.size() / 2, 1); !program.empty();) {
    bool has_shrunk = false;
    for (size_t at = 0; at < program.size();) {
      std::vector<Op> rest = program;
      const size_t end = std::min(at + size, rest.size());
      rest.erase(rest.begin() + static_cast<ptrdiff_t>(at),
                 rest.begin() + static_cast<ptrdiff_t>(end));
      if (fails(rest)) {
        program = std::move(rest);
        has_shrunk = true;
      } else {
        at += size;
      }
    }
    if (size == 1 && !has_shrunk) break;
    if (!has_shrunk) size /= 2;
  }
  return program;
}

}  // namespace vram::pool
