#include "trace/import/torch/entries.hpp"

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

Value Entries::end_entry(const Dict& dict) {
  const Value action = dict.fields[kAction];
  if (action.kind() != Kind::kText) {
    all_.anomalies.count("entries without a readable action, left out");
    return record(kSkipped);
  }
  const auto word = static_cast<uint32_t>(action.payload());
  if (word == kWordUserDefined) return end_user_defined(dict);
  if (!dict.others.empty()) note_unknown_keys(all_, dict, "an entry");
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
  event.address =
      all_.numbers.address(dict.get(oom && dict.has(kDeviceFree) ? kDeviceFree : kAddr));
  event.size_bytes = all_.numbers.amount(dict.get(kSize));
  if (dict.has(kTimeUs)) {
    event.time_ns = all_.numbers.time_ns(dict.fields[kTimeUs]);
    all_.trace.has_time = true;
  }
  event.stream = names_.stream_of(dict.get(kStream));
  if (dict.has(kFrames) || dict.has(kCppFrames)) event.stack = stacks_.stack_of_frames(dict);
  event.context = names_.context_of(dict, unknown_action);
  if (dict.has(kPoolIdKey)) {
    event.pool = names_.pool_of(dict.fields[kPoolIdKey]);
    all_.trace.has_pools = true;
  }
  last_entry_keys_ = dict.keys;
  all_.trace.events.push_back(event);
  return record(kEntry, all_.trace.events.size() - 1);
}

Value Entries::end_annotation(const Dict& dict) {
  if (!dict.others.empty()) note_unknown_keys(all_, dict, "an annotation");
  const Value stage = dict.fields[kStage];
  const bool begins = stage.kind() == Kind::kText && stage.payload() == kWordStart;
  if (!begins && !(stage.kind() == Kind::kText && stage.payload() == kWordEnd)) {
    all_.anomalies.count("annotations that are neither START nor END, left out");
    return record(kSkipped);
  }
  Annotation annotation;
  annotation.time_ns = all_.numbers.time_ns(dict.get(kTimeUs));
  annotation.name = all_.string_of(dict.fields[kName]);
  annotation.device = static_cast<uint32_t>(all_.numbers.amount(dict.get(kDevice)));
  annotation.is_begin = begins;
  return add_annotation(annotation, false);
}

// 2.4 and 2.5 wrote annotations among the entries: one frame whose name is the stage and whose file
// is the name.
Value Entries::end_user_defined(const Dict& dict) {
  const std::span<const FrameId> frames = tables_.stacks[stack_of(dict.get(kFrames))];
  const Frame frame = frames.empty() ? Frame{} : tables_.frames[frames[0]];
  const bool begins = tables_.strings[frame.function] == "START";
  if (!begins && tables_.strings[frame.function] != "END") {
    all_.anomalies.count("annotations that are neither START nor END, left out");
    return record(kSkipped);
  }
  Annotation annotation;
  annotation.time_ns = all_.numbers.time_ns(dict.get(kTimeUs));
  annotation.name = frame.file;
  annotation.is_begin = begins;
  return add_annotation(annotation, true);
}

Value Entries::add_annotation(const Annotation& annotation, bool was_entry) {
  all_.trace.annotations.push_back(annotation);
  const uint64_t index = all_.trace.annotations.size() - 1;
  return record(kAnnotation, index << 1 | (was_entry ? 1 : 0));
}

// An oom has its own key for the address.
bool Entries::looks_whole(const Dict& dict) const {
  const uint64_t wanted = last_entry_keys_ & ~(bit(kAddr) | bit(kDeviceFree) | bit(kForwardFrames));
  return last_entry_keys_ != 0 && (wanted & ~dict.keys) == 0 &&
         (dict.has(kAddr) || dict.has(kDeviceFree));
}

}  // namespace vram::trace::torch
