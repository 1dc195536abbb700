// GilThread: a thread that takes the GIL on behalf of another thread, which must not wait for it
// without a limit: it may hold a lock that the GIL's owner waits for, and CPython cannot try to
// lock. So a thread requests, waits for a limited time, and withdraws its request; its stack is
// read only if the GIL was available in time, while it still waits.
#pragma once

#include "record/record.hpp"
#include "record/stacks/cpython.hpp"

#include <chrono>

namespace vram::record {

class GilThread {
 public:
  using Walk = StackId (*)(CPython::Object* thread);

  // walk(thread) in the other thread, with the GIL; 0: not in time. The calling thread's state is
  // `thread`, and it does not hold the GIL. Waits for other requests and for the GIL, for
  // `timeout` each.
  [[nodiscard]] static StackId request(const CPython& python, Walk walk, CPython::Object* thread,
                                       std::chrono::milliseconds timeout);
};

}  // namespace vram::record
