// The Python stack of the calling thread, for CPython 3.9 and later, in any interpreter of the
// process: its functions are looked up in the process, none is linked.
//
// The GIL is held during the walk. No lock of vram is held while Python is called, since that may
// let other threads run. Code objects that were seen are kept alive for ever. A pending exception
// is preserved, and none is added.
#pragma once

#include "record/stores.hpp"

#include <chrono>

namespace vram::record {

class PythonStacks {
 public:
  // The innermost frames; outer ones are left out.
  static constexpr size_t kMaxFrames = 96;

  // Finds Python and creates the tables, as NativeStacks::prepare() does.
  static void prepare();
  // Whether this process runs an interpreter whose stacks can be read.
  [[nodiscard]] static bool is_available();
  // 0: this thread runs no Python code, or the interpreter is shutting down. Waits for the GIL, so
  // the caller must hold no lock that a thread with the GIL might wait for.
  [[nodiscard]] static StackId capture();
  // For callers that may hold any lock: waits for a limited time if the thread does not hold the
  // GIL itself (GilThread). 0: as capture(), or not in time.
  [[nodiscard]] static StackId try_capture(std::chrono::milliseconds timeout);
  // `is_without_code`: the process runs Python, and this thread none of its code, as autograd's.
  [[nodiscard]] static StackId try_capture(std::chrono::milliseconds timeout,
                                           bool& is_without_code);
  // Call it when Python is about to end, without the GIL: Python would terminate threads that wait
  // for the GIL within the program's code. Waits at most kClosingTime for threads that wait for it;
  // no thread waits for it afterwards.
  static constexpr std::chrono::seconds kClosingTime{5};
  static void close();
  // Of a flight recorder: code that is met beyond so many places is "?", and is not kept alive.
  static constexpr size_t kMaxPlaces = size_t{1} << 14;
  static void set_limited(bool is_limited);
  // "?" for a number that is not of a Python frame.
  [[nodiscard]] static FrameText describe(FrameNumber frame);
};

}  // namespace vram::record
