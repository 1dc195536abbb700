// The Python stack of the calling thread, from CPython 3.9 on, of whichever interpreter the process
// runs: its functions are looked for in the process, none is linked.
//
// Takes the interpreter's lock (the GIL) for the walk, so the caller must hold no lock that a
// thread with the GIL might wait for. Code objects that were seen once are kept alive for good.
#pragma once

#include "record/stores.hpp"

namespace vram::record {

class PythonStacks {
 public:
  // Innermost frames count; what lies further out is left off.
  static constexpr size_t kMostFrames = 96;

  // Whether this process runs an interpreter whose stacks can be read.
  [[nodiscard]] static bool is_available();
  // 0: this thread runs no Python code, or the interpreter is shutting down.
  [[nodiscard]] static StackId capture();
  [[nodiscard]] static FrameText describe(FrameNumber frame);

  // Around a fork: between them no other thread is changing the tables. One that has lost the GIL
  // meanwhile can't be waited for: then the child takes no more stacks.
  static void before_fork();
  static void after_fork(bool is_child);
};

}  // namespace vram::record
