// The origin of memory as a name: the user's frame of a stack, the scope of an event, a size class.
// Reads only the tables; UserFrames caches results for each file and stack, so that the stacks of
// millions of lifetimes cost a table lookup each. Use an object from one thread at a time.
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

// Finds the innermost frame of the user's code, or one that represents a line of it (FX traces).
// Returns its index in the stack; the stack's size if there is none (callers then show the
// innermost frame with a file, or "unknown").
[[nodiscard]] size_t user_frame_index(const trace::Tables& tables, trace::StackId stack);

// The function, file and line that a frame stands for: the user's own, if FX kept them for
// generated code. Without parameters of C++ functions. Texts beyond trace::kMaxNameBytes are
// truncated.
[[nodiscard]] Frame source_of(const trace::Tables& tables, const trace::Frame& frame);

// "train.py:42 loss_fn": always the base name of the file; the full path is in the stack. FX traces
// win over generated-code frames.
[[nodiscard]] std::string frame_name(const trace::Tables& tables, const trace::Frame& frame);
[[nodiscard]] std::string frame_name(const Frame& frame);

// What the stacks of one breakdown, or of all growing sites, may occupy. Stacks refer to frames by
// id, so that those of a small file could fill any memory as texts. The largest breakdown of 47
// recordings of training and inference has 81 stacks, 1.3 MiB.
inline constexpr uint64_t kMaxStacksBytes = uint64_t{64} << 20;

// The stack as report frames, innermost first. Texts beyond trace::kMaxNameBytes are truncated.
// Takes what the frames occupy from `room_bytes`; the frames that do not fit are one frame whose
// function is "(123 more frames)".
[[nodiscard]] std::vector<Frame> report_stack(const trace::Tables& tables, trace::StackId stack,
                                              uint64_t& room_bytes);

// What the names of one breakdown, or of all blocks, may occupy: names, too, are made of texts that
// many frames share.
inline constexpr uint64_t kMaxNamesBytes = uint64_t{16} << 20;

// The name, truncated if it does not fit into `room_bytes`, from which what it occupies is taken.
[[nodiscard]] std::string fit_name(std::string name, uint64_t& room_bytes);

// The same questions for many stacks of one trace.
class UserFrames {
 public:
  explicit UserFrames(const trace::Tables& tables);

  // As user_frame_index().
  [[nodiscard]] size_t index(trace::StackId stack);
  // Returns the frame that identifies a stack: the user's, else the innermost one with a file, else
  // the innermost one; of the latter two, preferably one outside PyTorch's recorder, allocator and
  // dispatcher, which are the same for all memory. 0 without a stack.
  [[nodiscard]] trace::FrameId frame(trace::StackId stack);
  [[nodiscard]] bool is_user(trace::FrameId frame);

 private:
  [[nodiscard]] trace::FrameId find_frame(trace::StackId stack);

  const trace::Tables& tables_;
  std::vector<int8_t> file_is_user_;      // by StringId; -1: not computed
  std::vector<uint32_t> index_of_stack_;  // by StackId
  std::vector<uint32_t> frame_of_stack_;  // the same
};

}  // namespace vram::explain
