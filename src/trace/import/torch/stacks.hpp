// Stacks: the frames of a snapshot, and the stacks that lists of them are, interned in the trace's
// tables. One thread.
#pragma once

#include "trace/import/torch/dict.hpp"

#include <cstdint>
#include <span>

namespace vram::trace::torch {

class Stacks {
 public:
  // all must outlive this.
  explicit Stacks(Collected& all) : all_(all), tables_(all.trace.tables) {}

  // Returns the record of a complete frame.
  [[nodiscard]] pickle::Value end_frame(const Dict& dict);
  // The frame that a text in a list of frames stands for.
  [[nodiscard]] FrameId frame_of(const pickle::Value& text);
  [[nodiscard]] StackId intern(std::span<const FrameId> frames);
  // The stack of a dictionary: its C++ frames and its other frames.
  [[nodiscard]] StackId stack_of_frames(const Dict& dict);
  // Bytes that the interned stacks and the names of their FX nodes occupy.
  [[nodiscard]] uint64_t memory_bytes() const { return bytes_; }

 private:
  Collected& all_;
  Tables& tables_;
  uint64_t bytes_ = 0;
};

// The stack that a list's record names; 0: the record is no stack.
[[nodiscard]] inline StackId stack_of(const pickle::Value& value) {
  return is(value, kStack) ? static_cast<StackId>(value.payload()) : 0;
}

}  // namespace vram::trace::torch
