#include "trace/import/torch/names.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

namespace {

constexpr uint64_t kTableBytes = 24;  // of an entry: its offset and its index

// A Python frame without a line number comes as 2^64 − 1, some as −1.
uint32_t line_of(const Value& value) {
  if (value.kind() != Kind::kInt) return 0;
  const int64_t line = value.integer();
  return line > 0 && line < 0xffffffff ? static_cast<uint32_t>(line) : 0;
}

}  // namespace

Value Stacks::end_frame(const Dict& dict) {
  if (!dict.others.empty()) note_unknown_keys(all_, dict, "a frame");
  Frame frame;
  frame.function = all_.string_of(dict.get(kName));
  const Value file = dict.get(kFilename);
  const bool no_file = file.kind() == Kind::kText && file.payload() == kWordNoFile;
  if (!no_file) frame.file = all_.string_of(file);
  frame.line = line_of(dict.get(kLine));
  if (dict.has(kFxNodeName) || dict.has(kFxNodeOp)) {
    const auto part = [&](Key key) {
      const StringId text = all_.string_of(dict.get(key));
      return limit_bytes(tables_.strings[text], kMaxNameBytes);
    };
    const std::string node =
        fmt::format("{} ({} {})", part(kFxNodeName), part(kFxNodeOp), part(kFxNodeTarget));
    const size_t known = tables_.strings.size();
    frame.fx_node = tables_.strings.intern(node);
    if (tables_.strings.size() != known) bytes_ += node.size() + kTableBytes;
  }
  frame.fx_trace = all_.string_of(dict.get(kFxOriginalTrace));
  return record(kFrame, tables_.frames.intern(frame));
}

FrameId Stacks::frame_of(const Value& text) {
  Frame frame;
  frame.function = all_.string_of(text);
  return tables_.frames.intern(frame);
}

StackId Stacks::intern(std::span<const FrameId> frames) {
  const size_t known = tables_.stacks.size();
  const StackId id = tables_.stacks.intern(frames);
  if (tables_.stacks.size() != known) bytes_ += frames.size_bytes() + kTableBytes;
  all_.trace.has_stacks = all_.trace.has_stacks || id != 0;
  return id;
}

// Up to 2.0, C++ frames came in a list of their own; they are the inner ones.
StackId Stacks::stack_of_frames(const Dict& dict) {
  const StackId frames = stack_of(dict.get(kFrames));
  if (!dict.has(kCppFrames)) return frames;
  const StackId cpp = stack_of(dict.fields[kCppFrames]);
  if (cpp == 0 || frames == 0) return cpp + frames;
  std::vector<FrameId> all;
  for (const StackId stack : {cpp, frames}) {
    const std::span<const FrameId> part = tables_.stacks[stack];
    all.insert(all.end(), part.begin(), part.end());
  }
  return intern(all);
}

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
  if (all_.is_of_vram) {
    key.category = all_.string_of(dict.get(kVramCategory));
  } else if (dict.has(kCategory)) {
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
  if (value.kind() == Kind::kNone) return kUnknownPool;
  PoolName name;
  if (is(value, kPair)) {
    name = pair_of(value);
  } else if (is(value, kScalars) && all_.scalar_lists[value.payload()].size() == 2) {
    const std::vector<Value>& pair = all_.scalar_lists[value.payload()];
    name = {all_.numbers.address(pair[0]), all_.numbers.address(pair[1])};
  } else {
    all_.anomalies.count(tr_later("pool ids that are no pair of integers"));
    return kUnknownPool;
  }
  last_pool_value_ = value;
  last_pool_ = tables_.pools.intern(name);
  return last_pool_;
}

}  // namespace vram::trace::torch
