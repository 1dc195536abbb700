#include "trace/import/torch/lists.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

namespace {
constexpr size_t kMaxFrames = 1U << 16;  // of one stack
constexpr const char* kTooManyFrames = tr_later("frames beyond the 65,536th of a stack, left out");
constexpr size_t kMaxScalars = kMaxSnapshotDevices;  // of one list

std::optional<Value> small_pair(std::span<const Value> items) {
  const auto small = [](const Value& item) {
    return item.kind() == Kind::kInt && item.payload() < (uint64_t{1} << kPairBits);
  };
  if (items.size() != 2 || !small(items[0]) || !small(items[1])) return std::nullopt;
  return record(kPair, items[0].payload() << kPairBits | items[1].payload());
}
}  // namespace

void Lists::begin(unsigned slot) {
  List& list = lists_[slot];
  list.content = kEmpty;
  list.first = list.count = list.left_out = 0;
  list.truncated = false;
  list.entry_list = Traces::kNoEntries;
  list.frames.truncate(0);
  if (!list.scalars.empty()) list.scalars.clear();
  if (!list.lists.empty()) list.lists.clear();
}

void Lists::append(unsigned slot, std::span<const Value> items) {
  List& list = lists_[slot];
  size_t i = 0;
  // Deep stacks are most of a file: their frames first, in a loop of its own.
  if (list.content == kEmpty || list.content == kStack) {
    i = append_frames(list, items);
  }
  // Then those of events, one after the other.
  if (list.content == kEntry && list.count != 0) {
    for (; i < items.size() && items[i] == record(kEntry, list.first + list.count); ++i) {
      ++list.count;
    }
  }
  for (; i < items.size(); ++i) append_one(list, items[i]);
}

// How many of the items are frames; those are the list's now.
size_t Lists::append_frames(List& list, std::span<const Value> items) {
  size_t count = 0;
  while (count < items.size() && is(items[count], kFrame)) ++count;
  if (count == 0) return 0;
  list.content = kStack;
  const size_t before = list.frames.size();
  const size_t kept = std::min(count, kMaxFrames - before);
  all_.anomalies.count(kTooManyFrames, count - kept);
  list.frames.resize(before + kept);
  FrameId* const to = list.frames.data() + before;
  for (size_t k = 0; k < kept; ++k) to[k] = static_cast<FrameId>(items[k].payload());
  return count;
}

inline void Lists::append_frame(List& list, FrameId frame) {
  list.content = kStack;
  if (list.frames.size() < kMaxFrames) {
    list.frames.push_back(frame);
  } else {
    all_.anomalies.count(kTooManyFrames);
  }
}

bool Lists::accepts(List& list, Tag content) {
  if (list.content == kEmpty) list.content = content;
  if (list.content != content) ++list.left_out;
  return list.content == content;
}

void Lists::append_one(List& list, const Value& item) {
  if (item.kind() == Kind::kText) {
    if (!accepts(list, kStack)) return;
    return append_frame(list, stacks_.frame_of(item));
  }
  if (item.kind() != Kind::kRecord) {
    if (!accepts(list, kScalars)) return;
    if (list.scalars.size() < kMaxScalars) list.scalars.push_back(item);
    return;
  }
  switch (item.tag()) {
    case kFrame:
      if (accepts(list, kStack)) append_frame(list, static_cast<FrameId>(item.payload()));
      return;
    case kEntry:
      return append_to_range(list, item, "an entry");
    case kBlock:
      return append_to_range(list, item, "a block");
    case kSegment:
      return append_to_range(list, item, "a segment");
    case kEntryList:
    case kEmpty:
      if (!accepts(list, kTraces) || list.lists.size() >= kMaxScalars) return;
      list.lists.push_back(item.tag() == kEmpty ? Traces::kNoEntries
                                                : static_cast<uint32_t>(item.payload()));
      return;
    case kTenant:
      if (accepts(list, kTenant) && list.count++ == 0) list.first = item.payload();  // the latest
      return;
    case kAnnotation:
      return append_annotation(list, item);
    default:
      ++list.left_out;
      return;
  }
}

// Records are made in the order of the file, so a list of them is a range, unless one dictionary is
// in two places.
void Lists::append_to_range(List& list, const Value& item, const char* what) {
  const auto content = static_cast<Tag>(item.tag());
  if (!accepts(list, content)) return;
  if (list.count == 0) {
    list.first = item.payload();
    if (content == kEntry) static_cast<void>(entry_list_of(list));
  } else if (item.payload() != list.first + list.count) {
    all_.refuse(trf("{} is in two lists or twice in one, which no recording does", what));
    return;
  }
  ++list.count;
}

void Lists::append_annotation(List& list, const Value& item) {
  const bool was_entry = (item.payload() & 1) != 0;
  if (!was_entry) {
    accepts(list, kAnnotation);
    return;
  }
  if (!accepts(list, kEntry)) return;
  ++list.left_out;
  all_.annotation_lists.emplace_back(item.payload() >> 1, entry_list_of(list));
}

uint32_t Lists::entry_list_of(List& list) {
  if (list.entry_list == Traces::kNoEntries) {
    list.entry_list = static_cast<uint32_t>(all_.entry_lists.size());
    all_.entry_lists.push_back({});
  }
  return list.entry_list;
}

Value Lists::tuple(std::span<const Value> items) {
  if (const std::optional<Value> pair = small_pair(items)) return *pair;  // a pool, one an event
  const unsigned slot = pickle::kMaxOpen;
  begin(slot);
  append(slot, items);
  return end(slot);
}

Value Lists::finish(List& list) {
  const Range range = {list.first, list.count, list.left_out, list.truncated, false};
  switch (list.content) {
    case kStack:
      return record(kStack, stacks_.intern(list.frames.span()));
    case kEntry:
      all_.entry_lists[entry_list_of(list)] = range;
      return record(kEntryList, list.entry_list);
    case kBlock:
      all_.block_lists.push_back(range);
      return record(kBlockList, all_.block_lists.size() - 1);
    case kSegment:
      all_.segment_lists.push_back(range);
      return record(kSegmentList, all_.segment_lists.size() - 1);
    case kTraces:
      if (!all_.may_keep(list.lists.size() + 1)) return record(kSkipped);
      all_.traces.push_back({list.lists, list.truncated});
      return record(kTraces, all_.traces.size() - 1);
    case kTenant:
      return record(kTenant, list.first);
    case kScalars:
      return finish_scalars(list);
    case kEmpty:
      return record(list.left_out == 0 ? kEmpty : kSkipped);
    default:
      return record(kSkipped);
  }
}

Value Lists::finish_scalars(List& list) {
  if (const std::optional<Value> pair = small_pair(list.scalars)) return *pair;
  if (!all_.may_keep(list.scalars.size() + 1)) return record(kSkipped);
  all_.scalar_lists.push_back(list.scalars);
  return record(kScalars, all_.scalar_lists.size() - 1);
}

}  // namespace vram::trace::torch
