#include "trace/import/torch/sink.hpp"

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

namespace {

constexpr size_t kMaxOtherKeys = 4096;         // of one dictionary
constexpr uint64_t kMaxKeptValues = 1U << 18;  // of all that are kept as they are: settings

constexpr uint64_t bit(Key key) { return uint64_t{1} << key; }
constexpr uint64_t kRootKeys =
    bit(kSegments) | bit(kDeviceTraces) | bit(kHostSegments) | bit(kHostTraces);

}  // namespace

void SnapshotSink::begin_dict(unsigned slot) {
  dicts_[slot].keys = 0;
  if (!dicts_[slot].others.empty()) dicts_[slot].others.clear();
}

void SnapshotSink::set_items(unsigned slot, std::span<const Value> items) {
  Dict& dict = dicts_[slot];
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const Value& key = items[i];
    if (key.kind() == Kind::kText && key.payload() < kKeyCount) {
      dict.fields[key.payload()] = items[i + 1];
      dict.keys |= uint64_t{1} << key.payload();
    } else if (dict.others.size() < kMaxOtherKeys) {
      dict.others.emplace_back(key, items[i + 1]);
    }
  }
}

Value SnapshotSink::end_dict(unsigned slot) {
  const Dict& dict = dicts_[slot];
  if (dict.has(kAction)) return end_entry(dict);
  if (dict.has(kFilename) || (dict.has(kName) && dict.has(kLine))) return end_frame(dict);
  if (dict.has(kBlocks)) return end_segment(dict);
  if (dict.has(kState) && dict.has(kSize)) return end_block(dict);
  if (dict.has(kStage) && dict.has(kName)) return end_annotation(dict);
  if (dict.has(kRealSize)) return end_tenant(dict);
  if ((dict.keys & kRootKeys) != 0) return end_root(dict);
  return end_generic(dict);
}

bool SnapshotSink::truncate_dict(unsigned slot, bool incomplete) {
  const Dict& dict = dicts_[slot];
  if ((dict.keys & kRootKeys) != 0) return true;
  if (incomplete || !dict.has(kAction)) return false;
  // An entry that has what the one before it had is whole; an oom has its own key for the address.
  const uint64_t wanted = last_entry_keys_ & ~(bit(kAddr) | bit(kDeviceFree) | bit(kForwardFrames));
  return last_entry_keys_ != 0 && (wanted & ~dict.keys) == 0 &&
         (dict.has(kAddr) || dict.has(kDeviceFree));
}

void SnapshotSink::note_unknown_keys(const Dict& dict, const char* where) {
  for (const auto& [key, value] : dict.others) {
    if (key.kind() != Kind::kText) {
      all_.anomalies.count("dictionary keys that are no texts");
      continue;
    }
    const auto number = static_cast<uint32_t>(key.payload());
    all_.anomalies.count("key", number, all_.texts.view(number), where);
  }
}

Value SnapshotSink::end_root(const Dict& dict) {
  all_.root_keys = dict.keys;
  for (unsigned key = 0; key < kKeyCount; ++key) {
    if (dict.has(static_cast<Key>(key))) all_.root[key] = dict.fields[key];
  }
  note_unknown_keys(dict, "the snapshot");
  return record(kRoot);
}

Value SnapshotSink::end_generic(const Dict& dict) {
  Items items = dict.others;
  for (uint32_t key = 0; key < kKeyCount; ++key) {
    if (dict.has(static_cast<Key>(key))) {
      items.emplace_back(Value{Kind::kText, key}, dict.fields[key]);
    }
  }
  kept_values_ += items.size() + 1;
  if (kept_values_ > kMaxKeptValues) return record(kSkipped);
  all_.dicts.push_back(std::move(items));
  return record(kDict, all_.dicts.size() - 1);
}

uint64_t SnapshotSink::memory_bytes() const {
  return all_.trace.events.size() * sizeof(Event) + all_.blocks.size() * sizeof(Block) +
         all_.segments.size() * sizeof(RawSegment) + all_.texts.memory_bytes() +
         all_.numbers.memory_bytes() + stack_bytes_ + tables_.frames.size() * (sizeof(Frame) + 16) +
         all_.trace.annotations.size() * sizeof(Annotation) +
         (all_.entry_lists.size() + all_.block_lists.size() + all_.segment_lists.size()) *
             sizeof(Range) +
         all_.tenants.size() * sizeof(Tenant) + kept_values_ * 2 * sizeof(Value);
}

}  // namespace vram::trace::torch
