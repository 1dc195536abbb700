// The native stack of the calling thread, by the unwinding tables that C++ exceptions use; about a
// microsecond a frame. Capturing takes no lock that a thread holds while it runs code of others:
// not that of dlopen and dladdr, which is held while libraries are initialized.
#pragma once

#include "record/stores.hpp"

namespace vram::record {

class NativeStacks {
 public:
  static constexpr size_t kMaxFrames = 64;

  // Makes the tables. A child that is forked while another thread makes them could never do so:
  // before threads take stacks.
  static void prepare();
  // Without vram's own frames.
  [[nodiscard]] static StackId capture();
  // The function's name, demangled, where its library exports it; else an offset in the library.
  // "?" for a number that is not of a native frame. Waits for dlopen: for the flusher alone.
  [[nodiscard]] static FrameText describe(FrameNumber frame);
};

}  // namespace vram::record
