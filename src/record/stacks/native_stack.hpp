// The native stack of the calling thread, by the unwinding tables that C++ exceptions use; about a
// microsecond a frame. Takes no lock that the process might hold.
#pragma once

#include "record/stores.hpp"

namespace vram::record {

class NativeStacks {
 public:
  static constexpr size_t kMostFrames = 64;
  static constexpr FrameNumber kMark = FrameNumber{1} << 31;

  // Without vram's own frames.
  [[nodiscard]] static StackId capture();
  // The function's name, demangled, where its library exports it; else an offset in the library.
  [[nodiscard]] static FrameText describe(FrameNumber frame);
  // Whether a frame is one of these: a stack that was under way while a recording ended may turn up
  // in the next one, which takes stacks of another kind.
  [[nodiscard]] static bool has(FrameNumber frame) { return (frame & kMark) != 0; }

  // Around a fork: between them no other thread is changing the tables.
  static void before_fork();
  static void after_fork();
};

}  // namespace vram::record
