#include "trace/import/torch/names.hpp"

#include <fmt/format.h>

#include <vector>

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

ContextId Names::context_of(const Dict& dict, StringId unknown_action) {
  ContextKey key;
  const Value compile = dict.get(kCompileContext);
  const bool not_compiled = compile.kind() == Kind::kText && compile.payload() == kWordNotAvailable;
  if (!not_compiled) key.compile_id = all_.string_of(compile);
  key.user_metadata =
      unknown_action != 0 ? unknown_action : all_.string_of(dict.get(kUserMetadata));
  if (dict.has(kForwardFrames)) key.forward_stack = stack_of(dict.fields[kForwardFrames]);
  if (dict.has(kCategory)) {
    // A number into a list of names that may come later: assemble() puts the name in its place.
    all_.has_categories = true;
    const Value category = dict.fields[kCategory];
    key.category =
        category.kind() == Kind::kText
            ? all_.string_of(category)
            : tables_.strings.intern(fmt::format("category {}", all_.numbers.amount(category)));
  }
  if (key == last_context_key_) return last_context_;
  last_context_key_ = key;
  last_context_ =
      tables_.contexts.intern({key.compile_id, key.user_metadata, key.category, key.forward_stack});
  return last_context_;
}

StreamId Names::stream_of(const Value& value) {
  const uint64_t handle = all_.numbers.address(value);
  if (handle != last_stream_handle_) {
    last_stream_handle_ = handle;
    last_stream_ = tables_.streams.intern(handle);
  }
  return last_stream_;
}

PoolId Names::pool_of(const Value& value) {
  if (value == last_pool_value_) return last_pool_;
  PoolName name;
  if (is(value, kPair)) {
    name = pair_of(value);
  } else if (is(value, kScalars) && all_.scalar_lists[value.payload()].size() == 2) {
    const std::vector<Value>& pair = all_.scalar_lists[value.payload()];
    name = {all_.numbers.address(pair[0]), all_.numbers.address(pair[1])};
  } else {
    all_.anomalies.count("pool ids that are no pair of integers");
    return kUnknownPool;
  }
  last_pool_value_ = value;
  last_pool_ = tables_.pools.intern(name);
  return last_pool_;
}

}  // namespace vram::trace::torch
