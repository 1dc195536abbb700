// Names: the streams, pools and contexts of records, interned in the trace's tables. Neighbouring
// records mostly agree on them, so the last result of each is remembered. One thread.
#pragma once

#include "trace/import/torch/dict.hpp"
#include "trace/import/torch/stacks.hpp"

#include <cstdint>

namespace vram::trace::torch {

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
