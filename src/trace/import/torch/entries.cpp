// Entries of device_traces become events; annotations find their place among Trace::annotations.
#include "trace/import/torch/sink.hpp"

#include <limits>

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

Value SnapshotSink::end_entry(const Dict& dict) {
  const Value action = dict.fields[kAction];
  if (action.kind() != Kind::kText) {
    all_.anomalies.count("entries without a readable action, left out");
    return record(kSkipped);
  }
  const auto word = static_cast<uint32_t>(action.payload());
  if (word == kWordUserDefined) return end_user_defined(dict);
  if (!dict.others.empty()) note_unknown_keys(dict, "an entry");
  Event event;
  StringId unknown_action = 0;
  if (word < kKeywordCount) event.kind = kEventKinds[word];
  if (event.kind == EventKind::kOther) {
    all_.anomalies.count("action", word, all_.texts.view(word), "an entry");
    unknown_action = all_.texts.string_id(word);
  }
  const bool oom = event.kind == EventKind::kOom;
  const bool has_address = dict.has(oom && dict.has(kDeviceFree) ? kDeviceFree : kAddr);
  if (event.kind < EventKind::kSnapshot && !(has_address && dict.has(kSize))) {
    all_.anomalies.count("entries without an address or a size, left out");
    return record(kSkipped);
  }
  event.address = address_of(dict.get(oom && dict.has(kDeviceFree) ? kDeviceFree : kAddr));
  event.size_bytes = amount_of(dict.get(kSize));
  if (dict.has(kTimeUs)) {
    event.time_ns = time_ns_of(dict.fields[kTimeUs]);
    all_.trace.has_time = true;
  }
  event.stream = stream_of(dict.get(kStream));
  if (dict.has(kFrames) || dict.has(kCppFrames)) event.stack = stack_of_frames(dict);
  event.context = context_of(dict, unknown_action);
  if (dict.has(kPoolIdKey)) {
    event.pool = pool_of(dict.fields[kPoolIdKey]);
    all_.trace.has_pools = true;
  }
  last_entry_keys_ = dict.keys;
  all_.trace.events.push_back(event);
  return record(kEntry, all_.trace.events.size() - 1);
}

ContextId SnapshotSink::context_of(const Dict& dict, StringId unknown_action) {
  ContextKey key;
  const Value compile = dict.get(kCompileContext);
  const bool not_compiled = compile.kind() == Kind::kText && compile.payload() == kWordNotAvailable;
  if (!not_compiled) key.compile_id = string_of(compile);
  key.user_metadata = unknown_action != 0 ? unknown_action : string_of(dict.get(kUserMetadata));
  if (dict.has(kForwardFrames)) key.forward_stack = stack_of(dict.fields[kForwardFrames]);
  if (dict.has(kCategory)) {
    // A number into a list of names that may come later: assemble() puts the name in its place.
    all_.has_categories = true;
    const Value category = dict.fields[kCategory];
    key.category = category.kind() == Kind::kText
                       ? string_of(category)
                       : tables_.strings.intern(fmt::format("category {}", amount_of(category)));
  }
  if (key == last_context_key_) return last_context_;
  last_context_key_ = key;
  last_context_ =
      tables_.contexts.intern({key.compile_id, key.user_metadata, key.category, key.forward_stack});
  return last_context_;
}

StreamId SnapshotSink::stream_of(const Value& value) {
  const uint64_t handle = address_of(value);
  if (handle != last_stream_handle_) {
    last_stream_handle_ = handle;
    last_stream_ = tables_.streams.intern(handle);
  }
  return last_stream_;
}

PoolId SnapshotSink::pool_of(const Value& value) {
  if (value == last_pool_value_) return last_pool_;
  PoolName name;
  if (is(value, kPair)) {
    name = pair_of(value);
  } else if (is(value, kScalars) && all_.scalar_lists[value.payload()].size() == 2) {
    const std::vector<Value>& pair = all_.scalar_lists[value.payload()];
    name = {address_of(pair[0]), address_of(pair[1])};
  } else {
    all_.anomalies.count("pool ids that are no pair of integers");
    return kUnknownPool;
  }
  last_pool_value_ = value;
  last_pool_ = tables_.pools.intern(name);
  return last_pool_;
}

Value SnapshotSink::end_annotation(const Dict& dict) {
  if (!dict.others.empty()) note_unknown_keys(dict, "an annotation");
  const Value stage = dict.fields[kStage];
  const bool begins = stage.kind() == Kind::kText && stage.payload() == kWordStart;
  if (!begins && !(stage.kind() == Kind::kText && stage.payload() == kWordEnd)) {
    all_.anomalies.count("annotations that are neither START nor END, left out");
    return record(kSkipped);
  }
  Annotation annotation;
  annotation.time_ns = time_ns_of(dict.get(kTimeUs));
  annotation.name = string_of(dict.fields[kName]);
  annotation.device = static_cast<uint32_t>(amount_of(dict.get(kDevice)));
  annotation.is_begin = begins;
  return add_annotation(annotation, false);
}

// 2.4 and 2.5 wrote annotations among the entries: one frame whose name is the stage and whose file
// is the name.
Value SnapshotSink::end_user_defined(const Dict& dict) {
  const std::span<const FrameId> frames = tables_.stacks[stack_of(dict.get(kFrames))];
  const Frame frame = frames.empty() ? Frame{} : tables_.frames[frames[0]];
  const bool begins = tables_.strings[frame.function] == "START";
  if (!begins && tables_.strings[frame.function] != "END") {
    all_.anomalies.count("annotations that are neither START nor END, left out");
    return record(kSkipped);
  }
  Annotation annotation;
  annotation.time_ns = time_ns_of(dict.get(kTimeUs));
  annotation.name = frame.file;
  annotation.is_begin = begins;
  return add_annotation(annotation, true);
}

Value SnapshotSink::add_annotation(const Annotation& annotation, bool was_entry) {
  all_.trace.annotations.push_back(annotation);
  const uint64_t index = all_.trace.annotations.size() - 1;
  return record(kAnnotation, index << 1 | (was_entry ? 1 : 0));
}

}  // namespace vram::trace::torch
