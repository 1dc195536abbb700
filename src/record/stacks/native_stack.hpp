// The native stack of the calling thread, by the unwinding tables that C++ exceptions use; about a
// microsecond a frame. Takes no lock that the process might hold.
#pragma once

#include "record/stores.hpp"

namespace vram::record {

class NativeStacks {
 public:
  static constexpr size_t kMostFrames = 64;

  // Without vram's own frames.
  [[nodiscard]] static StackId capture();
  // The function's name, demangled, where its library exports it; else an offset in the library.
  [[nodiscard]] static FrameText describe(FrameNumber frame);
};

}  // namespace vram::record
