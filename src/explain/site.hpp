// Where memory comes from, as names: the user's frame of a stack, the scope an event lies in, a
// size class. A site is one of these names; ids count up from 0 within one Sites object.
#pragma once

#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::explain {

// The innermost frame that is the user's: not torch's, not from site-packages or dist-packages, not
// the interpreter's own library, not C++. Index into the stack; the stack's size when there is none
// (then callers show the innermost frame that has a file, or "unknown").
[[nodiscard]] size_t user_frame_index(const trace::Tables& tables, trace::StackId stack);

// "train.py:42 loss_fn": always the base name of the file; the full path is in the stack. FX traces
// win over generated-code frames.
[[nodiscard]] std::string frame_name(const trace::Tables& tables, const trace::Frame& frame);

// The stack as report frames, innermost first.
[[nodiscard]] std::vector<Frame> report_stack(const trace::Tables& tables, trace::StackId stack);

}  // namespace vram::explain
