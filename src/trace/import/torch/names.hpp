// The parts of records that are interned in the trace's tables: stacks (Stacks), and streams, pools
// and contexts (Names). One thread.
#pragma once

#include "trace/import/torch/collected.hpp"

#include <cstdint>
#include <span>

namespace vram::trace::torch {

// The frames of a snapshot, and the stacks that lists of them are.
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

// Neighbouring records mostly agree on their names, so the last result of each is remembered.
class Names {
 public:
  // all must outlive this.
  explicit Names(Collected& all) : all_(all), tables_(all.trace.tables) {}

  [[nodiscard]] StreamId stream_of(const pickle::Value& value);
  [[nodiscard]] PoolId pool_of(const pickle::Value& value);
  // The context of an entry. unknown_action: the name of an action that is unknown here, else 0.
  [[nodiscard]] ContextId context_of(const Dict& dict, StringId unknown_action);

 private:
  struct ContextKey {
    StringId compile_id = 0, user_metadata = 0, category = 0;
    StackId forward_stack = 0;
    friend bool operator==(const ContextKey&, const ContextKey&) = default;
  };

  Collected& all_;
  Tables& tables_;
  ContextKey last_context_key_;
  ContextId last_context_ = 0;
  uint64_t last_stream_handle_ = 0;
  StreamId last_stream_ = 0;
  pickle::Value last_pool_value_ = record(kPair);
  PoolId last_pool_ = 0;
};

}  // namespace vram::trace::torch
