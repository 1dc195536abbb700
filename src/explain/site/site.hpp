// Where memory comes from, as names: the user's frame of a stack, the scope an event lies in, a
// size class. Reads the tables only; UserFrames remembers what it saw of each file and stack, so
// asking for the stacks of millions of lifetimes costs a table look-up each. One thread at a time
// per object.
#pragma once

#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::explain {

// Is this source file the user's: not torch's, not from site-packages or dist-packages, not the
// interpreter's own library, not C++, not generated? Cells of notebooks and lines typed at a prompt
// are the user's.
[[nodiscard]] bool is_user_file(std::string_view path);

// The innermost frame that is the user's, or that stands for a line of the user's (FX traces).
// Index into the stack; the stack's size when there is none (then callers show the innermost frame
// that has a file, or "unknown").
[[nodiscard]] size_t user_frame_index(const trace::Tables& tables, trace::StackId stack);

// "train.py:42 loss_fn": always the base name of the file; the full path is in the stack. FX traces
// win over generated-code frames.
[[nodiscard]] std::string frame_name(const trace::Tables& tables, const trace::Frame& frame);

// The stack as report frames, innermost first.
[[nodiscard]] std::vector<Frame> report_stack(const trace::Tables& tables, trace::StackId stack);

// The same questions for many stacks of one trace.
class UserFrames {
 public:
  explicit UserFrames(const trace::Tables& tables);

  // As user_frame_index().
  [[nodiscard]] size_t index(trace::StackId stack);
  // The frame a stack is known by: the user's, else the innermost that has a file, else the
  // innermost. Of these two, one that PyTorch's recorder, allocator and dispatcher are not in, for
  // those are the same for all memory. 0 for no stack.
  [[nodiscard]] trace::FrameId frame(trace::StackId stack);
  [[nodiscard]] bool is_user(trace::FrameId frame);

 private:
  [[nodiscard]] trace::FrameId find_frame(trace::StackId stack);

  const trace::Tables& tables_;
  std::vector<int8_t> file_is_user_;      // by StringId; -1 not looked at yet
  std::vector<uint32_t> index_of_stack_;  // by StackId; kNotComputed not looked at yet
  std::vector<uint32_t> frame_of_stack_;  // the same
};

}  // namespace vram::explain
