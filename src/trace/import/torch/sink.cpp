#include "trace/import/torch/sink.hpp"

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

namespace {

constexpr uint64_t kRootKeys =
    bit(kSegments) | bit(kDeviceTraces) | bit(kHostSegments) | bit(kHostTraces);

}  // namespace

Value SnapshotSink::end_dict(unsigned slot) {
  const Dict& dict = dicts_[slot];
  if (dict.has(kAction)) return entries_.end_entry(dict);
  if (dict.has(kFilename) || (dict.has(kName) && dict.has(kLine))) return stacks_.end_frame(dict);
  if (dict.has(kBlocks)) return state_.end_segment(dict);
  if (dict.has(kState) && dict.has(kSize)) return state_.end_block(dict);
  if (dict.has(kStage) && dict.has(kName)) return entries_.end_annotation(dict);
  if (dict.has(kRealSize)) return state_.end_tenant(dict);
  if (dict.has(kVramFigure)) return entries_.end_figure(dict);
  if (dict.has(kVramMark)) return entries_.end_mark(dict);
  if ((dict.keys & kRootKeys) != 0) return end_root(dict);
  // It comes first, before the entries.
  all_.is_of_vram = all_.is_of_vram || dict.has(kVramVersion);
  return end_generic(dict);
}

bool SnapshotSink::truncate_dict(unsigned slot, bool incomplete) {
  const Dict& dict = dicts_[slot];
  if ((dict.keys & kRootKeys) != 0) return true;
  return !incomplete && dict.has(kAction) && entries_.looks_whole(dict);
}

Value SnapshotSink::end_root(const Dict& dict) {
  all_.root_keys = dict.keys;
  for (unsigned key = 0; key < kKeyCount; ++key) {
    if (dict.has(static_cast<Key>(key))) all_.root[key] = dict.fields[key];
  }
  note_unknown_keys(all_, dict, "the snapshot");
  return record(kRoot);
}

Value SnapshotSink::end_generic(const Dict& dict) {
  Items items = dict.others;
  for (uint32_t key = 0; key < kKeyCount; ++key) {
    if (dict.has(static_cast<Key>(key))) {
      items.emplace_back(Value{Kind::kText, key}, dict.fields[key]);
    }
  }
  if (!all_.may_keep(items.size() + 1)) return record(kSkipped);
  all_.dicts.push_back(std::move(items));
  return record(kDict, all_.dicts.size() - 1);
}

uint64_t SnapshotSink::memory_bytes() const {
  return all_.trace.events.size() * sizeof(Event) + all_.blocks.size() * sizeof(Block) +
         all_.segments.size() * sizeof(RawSegment) + all_.texts.memory_bytes() +
         all_.numbers.memory_bytes() + stacks_.memory_bytes() +
         all_.trace.tables.frames.size() * (sizeof(Frame) + 16) +
         all_.trace.annotations.size() * sizeof(Annotation) +
         all_.trace.figures.size() * sizeof(Figure) + all_.trace.marks.size() * sizeof(Mark) +
         (all_.entry_lists.size() + all_.block_lists.size() + all_.segment_lists.size()) *
             sizeof(Range) +
         all_.tenants.size() * sizeof(Tenant) + all_.kept_values * 2 * sizeof(Value);
}

}  // namespace vram::trace::torch
