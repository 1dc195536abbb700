#include "trace/import/torch/records.hpp"

#include <algorithm>
#include <limits>

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

Value Entries::end_entry(const Dict& dict) {
  const Value action = dict.fields[kAction];
  if (action.kind() != Kind::kText) {
    all_.anomalies.count(tr_later("entries without a readable action, left out"));
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
    all_.anomalies.count(tr_later("entries without an address or a size, left out"));
    return record(kSkipped);
  }
  event.address =
      all_.numbers.address(dict.get(oom && dict.has(kDeviceFree) ? kDeviceFree : kAddr));
  event.size_bytes = all_.numbers.amount(dict.get(kSize));
  if (dict.has(kTimeUs)) {
    event.time_ns = all_.numbers.time_ns(dict.fields[kTimeUs], dict.get(kNanoseconds));
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
    all_.anomalies.count(tr_later("annotations that are neither START nor END, left out"));
    return record(kSkipped);
  }
  Annotation annotation;
  annotation.time_ns = all_.numbers.time_ns(dict.get(kTimeUs), dict.get(kNanoseconds));
  annotation.name = all_.string_of(dict.fields[kName]);
  annotation.device = static_cast<uint32_t>(all_.numbers.amount(dict.get(kDevice)));
  annotation.is_begin = begins;
  return add_annotation(annotation, false);
}

Value Entries::end_figure(const Dict& dict) {
  all_.trace.figures.push_back(
      {.time_ns = all_.numbers.time_ns(dict.get(kTimeUs), dict.get(kNanoseconds)),
       .value = all_.numbers.address(dict.get(kValue)),
       .name = all_.string_of(dict.fields[kVramFigure]),
       .device = static_cast<uint32_t>(all_.numbers.amount(dict.get(kDevice)))});
  return record(kSkipped);
}

Value Entries::end_mark(const Dict& dict) {
  const uint64_t kind = all_.numbers.amount(dict.get(kMarkKindKey));
  constexpr uint64_t kMaxDuration = std::numeric_limits<int64_t>::max();
  const uint64_t duration = std::min(all_.numbers.amount(dict.get(kDurationNs)), kMaxDuration);
  all_.trace.marks.push_back(
      {.time_ns = all_.numbers.time_ns(dict.get(kTimeUs), dict.get(kNanoseconds)),
       .duration_ns = static_cast<int64_t>(duration),
       .size_bytes = all_.numbers.amount(dict.get(kSize)),
       .name = all_.string_of(dict.fields[kVramMark]),
       .group = all_.string_of(dict.get(kMarkGroup)),
       .device = static_cast<uint32_t>(all_.numbers.amount(dict.get(kDevice))),
       .kind = kind < kMarkKinds ? static_cast<MarkKind>(kind) : MarkKind::kOther});
  return record(kSkipped);
}

// 2.4 and 2.5 wrote annotations among the entries: one frame whose name is the stage and whose file
// is the name.
Value Entries::end_user_defined(const Dict& dict) {
  const std::span<const FrameId> frames = tables_.stacks[stack_of(dict.get(kFrames))];
  const Frame frame = frames.empty() ? Frame{} : tables_.frames[frames[0]];
  const bool begins = tables_.strings[frame.function] == "START";
  if (!begins && tables_.strings[frame.function] != "END") {
    all_.anomalies.count(tr_later("annotations that are neither START nor END, left out"));
    return record(kSkipped);
  }
  Annotation annotation;
  annotation.time_ns = all_.numbers.time_ns(dict.get(kTimeUs), dict.get(kNanoseconds));
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

using pickle::Kind;
using pickle::Value;

namespace {

constexpr uint8_t kAddressMissing = 1;  // in Block::unused until its segment gives it one

BlockState state_of(const Value& value, Anomalies& anomalies) {
  if (value.kind() == Kind::kText) {
    switch (value.payload()) {
      case kWordActiveAllocated:
        return BlockState::kAllocated;
      case kWordActivePendingFree:
      case kWordActiveAwaitingFree:
        return BlockState::kPendingFree;
      case kWordInactive:
        return BlockState::kInactive;
      default:
        break;
    }
  }
  anomalies.count(tr_later("blocks of an unknown state, taken as inactive"));
  return BlockState::kInactive;
}

}  // namespace

Value EndState::end_block(const Dict& dict) {
  if (!dict.others.empty()) note_unknown_keys(all_, dict, "a block");
  Block block;
  block.size_bytes = all_.numbers.amount(dict.fields[kSize]);
  block.state = state_of(dict.fields[kState], all_.anomalies);
  if (Numbers::is_integer(dict.get(kAddress))) {
    block.address = all_.numbers.address(dict.fields[kAddress]);
  } else {
    block.unused[0] = kAddressMissing;
  }
  block.requested_bytes = block.size_bytes;
  const Value history = dict.get(kHistory);
  if (is(history, kTenant)) {
    const Tenant& latest = all_.tenants[history.payload()];
    block.requested_bytes = latest.requested_bytes;
    block.stack = latest.stack;
  }
  if (Numbers::is_integer(dict.get(kRequestedSize))) {
    block.requested_bytes = all_.numbers.amount(dict.fields[kRequestedSize]);
  }
  if (dict.has(kFrames) || dict.has(kCppFrames)) block.stack = stacks_.stack_of_frames(dict);
  all_.blocks.push_back(block);
  return record(kBlock, all_.blocks.size() - 1);
}

Value EndState::end_tenant(const Dict& dict) {
  if (!dict.others.empty()) note_unknown_keys(all_, dict, "a block's history");
  const Tenant tenant = {all_.numbers.amount(dict.fields[kRealSize]),
                         stacks_.stack_of_frames(dict)};
  all_.tenants.push_back(tenant);
  return record(kTenant, all_.tenants.size() - 1);
}

Value EndState::end_segment(const Dict& dict) {
  if (!dict.others.empty()) note_unknown_keys(all_, dict, "a segment");
  RawSegment raw;
  raw.device = all_.numbers.amount(dict.get(kDevice));
  Segment& segment = raw.segment;
  segment.address = all_.numbers.address(dict.get(kAddress));
  segment.size_bytes = all_.numbers.amount(dict.get(kTotalSize));
  segment.stack = stacks_.stack_of_frames(dict);
  segment.stream = names_.stream_of(dict.get(kStream));
  if (dict.has(kSegmentPoolId)) segment.pool = names_.pool_of(dict.fields[kSegmentPoolId]);
  const Value type = dict.get(kSegmentType);
  segment.is_small = type.kind() == Kind::kText && type.payload() == kWordSmall;
  segment.is_expandable = dict.get(kIsExpandable) == Value{Kind::kBool, 1};
  segment.claimed_allocated_bytes = all_.numbers.amount(dict.get(kAllocatedSize));
  segment.claimed_active_bytes = all_.numbers.amount(dict.get(kActiveSize));
  segment.claimed_requested_bytes = all_.numbers.amount(dict.get(kRequestedSize));
  uint64_t next_address = segment.address;
  for (Block& block : take_blocks(dict.fields[kBlocks], segment)) {
    if (block.unused[0] == kAddressMissing) {
      block.address = next_address;
      block.unused[0] = 0;
    }
    next_address = block.address + block.size_bytes;
  }
  all_.segments.push_back(raw);
  return record(kSegment, all_.segments.size() - 1);
}

// A list of blocks belongs to one segment: else a small file could name one list a million times.
std::span<Block> EndState::take_blocks(const Value& value, Segment& segment) {
  if (!is(value, kBlockList)) return {};
  Range& range = all_.block_lists[value.payload()];
  if (range.taken) {
    all_.refuse(tr("two segments share one list of blocks, which no recording does"));
    return {};
  }
  range.taken = true;
  segment.first_block = range.first;
  segment.block_count = static_cast<uint32_t>(std::min<uint64_t>(range.count, 0xffffffff));
  return {all_.blocks.data() + range.first, segment.block_count};
}

}  // namespace vram::trace::torch
