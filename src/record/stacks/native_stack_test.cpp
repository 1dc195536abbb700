// NativeStacks: what the unwinder finds has names.
#include "record/stacks/native_stack.hpp"

#include <gtest/gtest.h>

namespace vram::record {
namespace {

// This program and vram are one file here, so that vram's own frames are the program's, too: those
// of the C library that started it are left.
TEST(NativeStacks, FramesNameFunctionsAndLibraries) {
  const StackId stack = NativeStacks::capture();
  const auto frames = stores().stacks.frames(stack);
  ASSERT_FALSE(frames.empty());
  for (const FrameNumber frame : frames) {
    EXPECT_NE(NativeStacks::describe(frame).file, "");
    EXPECT_NE(NativeStacks::describe(frame).function, "");
  }
  EXPECT_EQ(NativeStacks::capture(), stack) << "the frames outside are the same";
}

}  // namespace
}  // namespace vram::record
