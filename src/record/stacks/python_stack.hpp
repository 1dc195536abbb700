// The Python stack of the calling thread, from CPython 3.9 on, of whichever interpreter the process
// runs: its functions are looked for in the process, none is linked.
//
// The interpreter's lock (the GIL) is held for the walk. No lock of vram's is held while Python is
// called, which may let other threads run. Code objects that were seen once are kept alive for
// good. An exception that is set stays set, and none is added.
#pragma once

#include "record/stores.hpp"

#include <chrono>

namespace vram::record {

class PythonStacks {
 public:
  // Innermost frames count; what lies further out is left off.
  static constexpr size_t kMaxFrames = 96;

  // Looks for Python and makes the tables, as NativeStacks::prepare() does.
  static void prepare();
  // Whether this process runs an interpreter whose stacks can be read.
  [[nodiscard]] static bool is_available();
  // 0: this thread runs no Python code, or the interpreter is shutting down. Waits for the GIL, so
  // the caller must hold no lock that a thread with the GIL might wait for.
  [[nodiscard]] static StackId capture();
  // For callers that may hold any lock: waits for a hundredth of a second at most, where the thread
  // does not hold the GIL itself (GilThread). 0: as above, or not in this time.
  [[nodiscard]] static StackId try_capture();
  // Python is about to end: threads that wait for the GIL then would be ended where they are, in
  // the program's code. No thread waits for it from now on; those that do are waited for, for
  // kClosingTime at most. The caller does not hold the GIL.
  static constexpr std::chrono::seconds kClosingTime{5};
  static void close();
  // "?" for a number that is not of a Python frame.
  [[nodiscard]] static FrameText describe(FrameNumber frame);
};

}  // namespace vram::record
