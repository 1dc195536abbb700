// GilThread: a thread that takes the GIL in the place of another one, which must not wait for it
// without end: that one may hold a lock that the thread with the GIL waits for. CPython has no way
// to try. So the thread asks, waits a while, and takes its question back; only if the GIL came in
// time its stack is read, while it still waits.
#pragma once

#include "record/record.hpp"
#include "record/stacks/cpython.hpp"

#include <chrono>

namespace vram::record {

class GilThread {
 public:
  static constexpr std::chrono::milliseconds kTimeout{10};
  using Walk = StackId (*)(CPython::Object* thread);

  // walk(thread) in the other thread, with the GIL; 0: not in time. The calling thread's state is
  // `thread`, and it does not hold the GIL.
  [[nodiscard]] static StackId request(const CPython& python, Walk walk, CPython::Object* thread);
};

}  // namespace vram::record
