#include "record/stacks/describe.hpp"

#include "record/stacks/native_stack.hpp"
#include "record/stacks/python_stack.hpp"

namespace vram::record {

FrameText describe_frame(FrameNumber frame) {
  const bool is_native = (frame & kNativeFrame) != 0;
  return is_native ? NativeStacks::describe(frame) : PythonStacks::describe(frame);
}

}  // namespace vram::record
