#include "trace/import/torch/assemble.hpp"

#include "base/language.hpp"
#include "base/text.hpp"
#include "trace/import/torch/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

namespace {

constexpr const char* kExpected = tr_later(
    "expected a PyTorch memory snapshot (a dictionary with 'segments' and 'device_traces', "
    "or a list of segments)");

std::string describe(const Collected& all, const Value& root) {
  switch (root.kind()) {
    case Kind::kText:
      return tr("a text");
    case Kind::kNone:
      return "None";
    case Kind::kRecord:
      break;
    default:
      return tr("a number or bytes");
  }
  if (root.tag() == kEmpty) return tr("an empty list");
  if (root.tag() != kDict) return tr("a list or a part of a snapshot");
  const Items& items = all.dicts[root.payload()];
  if (items.empty()) return tr("an empty dictionary");
  std::string keys;
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(items.size(), kShown); ++i) {
    const Value& key = items[i].first;
    if (!keys.empty()) keys += ", ";
    if (key.kind() != Kind::kText) {
      keys += tr("a number");
      continue;
    }
    const std::string_view text = all.texts.view(static_cast<uint32_t>(key.payload()));
    keys += '\'' + printable(text.substr(0, 40)) + '\'';
  }
  return trf("a dictionary with the keys {}{}", keys, items.size() > kShown ? ", …" : "");
}

// Old dumps are the bare list of segments: the same as a snapshot with nothing else.
Result<> accept_root(Collected& all, const pickle::Outcome& outcome) {
  if (is(outcome.root, kRoot)) return {};
  if (is(outcome.root, kSegmentList)) {
    all.root[kSegments] = outcome.root;
    all.root_keys = uint64_t{1} << kSegments;
    return {};
  }
  if (outcome.truncated_at_byte) {
    return fail(Code::kBadInput,
                "the file ends at byte {}, before its first complete segment or trace entry",
                *outcome.truncated_at_byte);
  }
  return fail(Code::kBadInput, "{}, found {}", tr(kExpected), describe(all, outcome.root));
}

bool whole_segments(const Collected& all, Key key) {
  const Value& list = all.root[key];
  if (is(list, kSegmentList)) return !all.segment_lists[list.payload()].truncated;
  return is(list, kEmpty);
}

bool traces_truncated(const Collected& all, Key key) {
  const Value& list = all.root[key];
  return is(list, kTraces) && all.traces[list.payload()].truncated;
}

std::string device_name(const DeviceKey& key) {
  return key.first == DeviceKind::kGpu ? trf("device {}", key.second)
                                       : trf("pinned host memory {}", key.second);
}

void note_losses(const Collected& all, const DeviceMap& devices, uint64_t at_byte, Trace& trace) {
  const auto has = [&](Key key) { return (all.root_keys >> key & 1) != 0; };
  std::vector<Note>& notes = trace.origin.notes;
  notes.push_back(
      {trf("the file ends early, at byte {} of its content; everything complete "
           "before that is used",
           at_byte)});
  if (!has(kSegments)) {
    notes.push_back({tr_later("lost: the segments, so the state at the end is unknown")});
  } else if (!whole_segments(all, kSegments)) {
    notes.push_back(
        {tr_later("lost: some of the segments, so the state at the end is not known in full")});
  }
  if (!has(kDeviceTraces)) notes.push_back({tr_later("lost: the events of all devices")});
  for (const auto& [key, pieces] : devices) {
    if (!pieces.trace_truncated) continue;
    notes.push_back(
        {trf("lost: the events of {} after its number {}", device_name(key), pieces.entry_count)});
  }
  if (traces_truncated(all, kDeviceTraces)) {
    notes.push_back(
        {tr_later("lost: the events of the devices that follow in the file, if there were any")});
  }
}

// What vram replayed is no state that events could be compared with.
void apply_vram_part(const VramPart& part, DeviceTrace& device) {
  const std::string name =
      fmt::format("{} {}", device.kind == DeviceKind::kHost ? "host" : "gpu", device.ordinal);
  device.ring_overflowed = device.ring_overflowed || part.overflowed.contains(name);
  if (!part.replayed_ends.contains(name)) return;
  device.has_end_state = false;
  device.segments.clear();
  device.blocks.truncate(0);
}

void place_devices(Collected& all, const DeviceMap& devices, const RingFlags& rings,
                   const VramPart& part, bool truncated) {
  const size_t with_blocks = static_cast<size_t>(std::count_if(
      devices.begin(), devices.end(), [](const auto& d) { return !d.second.segments.empty(); }));
  for (const auto& [key, pieces] : devices) {
    if (pieces.event_count == 0 && pieces.segments.empty()) continue;
    DeviceTrace device;
    std::tie(device.kind, device.ordinal) = key;
    device.first_event = pieces.first_event;
    device.event_count = pieces.event_count;
    device.ring_overflowed =
        device.kind == DeviceKind::kGpu && rings.overflowed(device.ordinal, pieces.entry_count);
    const bool is_among_gpus =
        device.kind == DeviceKind::kGpu || all.has_categories || part.has_hosts_as_gpus;
    const Key segments_key = is_among_gpus ? kSegments : kHostSegments;
    // Of a truncated recording, the segments describe a later moment than its last event.
    device.has_end_state =
        whole_segments(all, segments_key) && !(truncated && pieces.trace_truncated);
    place_segments(all, pieces, with_blocks == 1 && !pieces.segments.empty(), device);
    apply_vram_part(part, device);
    all.trace.devices.push_back(std::move(device));
  }
}

void place_annotations(Collected& all, const ListOwners& owners) {
  for (const auto& [annotation, list] : all.annotation_lists) {
    const auto owner = owners.find(list);
    if (owner != owners.end()) all.trace.annotations[annotation].device = owner->second.second;
  }
}

// Profile-derived entries name their category by a number into a list that may have come after
// them.
void name_categories(Collected& all) {
  if (!all.has_categories || !is(all.root[kCategories], kStack)) return;
  Tables& tables = all.trace.tables;
  const auto names = tables.stacks[static_cast<StackId>(all.root[kCategories].payload())];
  std::vector<std::pair<StringId, StringId>> renamed;
  for (size_t i = 0; i < names.size(); ++i) {
    const StringId name = tables.frames[names[i]].function;
    renamed.emplace_back(tables.strings.intern(fmt::format("category {}", i)), name);
  }
  std::vector<ContextId> context_now(tables.contexts.size());
  for (ContextId id = 0; id < context_now.size(); ++id) {
    Context context = tables.contexts[id];
    for (const auto& [number, name] : renamed) {
      if (context.category == number) {
        context.category = name;
        break;
      }
    }
    context_now[id] = tables.contexts.intern(context);
  }
  for (Event& event : all.trace.events) event.context = context_now[event.context];
}

// The notes of the recording that vram made a snapshot of, of which reading it repeats some.
void add_vram_part(VramPart part, Trace& trace) {
  trace.about = std::move(part.about);
  trace.origin.format = std::move(part.format);
  if (!trace.origin.truncated_at_byte) trace.origin.truncated_at_byte = part.truncated_at_byte;
  for (Note& note : part.notes) {
    const auto is_same = [&](const Note& known) { return known.text == note.text; };
    if (std::ranges::none_of(trace.origin.notes, is_same))
      trace.origin.notes.push_back(std::move(note));
  }
}

}  // namespace

Result<Trace> assemble(Collected& all, const pickle::Outcome& outcome) {
  if (Result<> accepted = accept_root(all, outcome); !accepted) {
    return tl::unexpected(accepted.error());
  }
  VramPart part = vram_part(all);
  ListOwners owners;
  Result<DeviceMap> devices = gather_devices(all, part, owners);
  if (!devices) return tl::unexpected(devices.error());
  if (Result<> ordered = order_events(all.trace.events, *devices); !ordered) {
    return tl::unexpected(ordered.error());
  }
  Trace& trace = all.trace;
  trace.settings = flatten_settings(all);
  trace.origin.truncated_at_byte = outcome.truncated_at_byte;
  if (outcome.truncated_at_byte) note_losses(all, *devices, *outcome.truncated_at_byte, trace);
  const bool truncated = outcome.truncated_at_byte.has_value();
  place_devices(all, *devices, ring_flags(all), part, truncated);
  place_annotations(all, owners);
  name_categories(all);
  if (!trace.has_pools) deduce_pools(trace);
  for (Note& note : all.anomalies.notes()) trace.origin.notes.push_back(std::move(note));
  add_vram_part(std::move(part), trace);
  return std::move(all.trace);
}

namespace {

// Which pool owns which addresses at the moment the walk has reached.
class PoolMap {
 public:
  void add(uint64_t address, uint64_t size_bytes, PoolId pool) {
    remove(address, size_bytes);
    const uint64_t end = address + size_bytes;
    if (end > address) ranges_[address] = {end, pool};
  }

  void remove(uint64_t address, uint64_t size_bytes) {
    const uint64_t end = address + size_bytes;
    if (end <= address) return;
    auto at = ranges_.upper_bound(address);
    if (at != ranges_.begin() && std::prev(at)->second.end > address) --at;
    while (at != ranges_.end() && at->first < end) {
      const auto [begin, range] = *at;
      at = ranges_.erase(at);
      if (begin < address) ranges_[begin] = {address, range.pool};
      if (range.end > end) at = ranges_.insert_or_assign(end, range).first;
    }
  }

  [[nodiscard]] PoolId find(uint64_t address) const {
    auto at = ranges_.upper_bound(address);
    if (at == ranges_.begin()) return kUnknownPool;
    --at;
    return at->second.end > address ? at->second.pool : kUnknownPool;
  }

 private:
  struct Range {
    uint64_t end = 0;
    PoolId pool = 0;
  };
  std::map<uint64_t, Range> ranges_;  // by first address; they never overlap
};

void deduce(std::span<Event> events, const DeviceTrace& device) {
  PoolMap pools;
  for (const Segment& segment : device.segments) {
    pools.add(segment.address, segment.size_bytes, segment.pool);
  }
  for (size_t i = events.size(); i-- > 0;) {
    Event& event = events[i];
    switch (event.kind) {
      case EventKind::kAlloc:
      case EventKind::kFreeRequested:
      case EventKind::kFreeCompleted:
        event.pool = pools.find(event.address);
        break;
      case EventKind::kSegmentAlloc:
      case EventKind::kSegmentMap:
        event.pool = pools.find(event.address);
        pools.remove(event.address, event.size_bytes);
        break;
      case EventKind::kSegmentFree:
      case EventKind::kSegmentUnmap:
        event.pool = kUnknownPool;
        pools.add(event.address, event.size_bytes, kUnknownPool);
        break;
      default:
        break;
    }
  }
}

}  // namespace

void deduce_pools(Trace& trace) {
  if (trace.tables.pools.size() == 1) return;
  uint64_t unknown = 0;
  for (const DeviceTrace& device : trace.devices) {
    const std::span<Event> events(trace.events.data() + device.first_event, device.event_count);
    deduce(events, device);
    unknown += static_cast<uint64_t>(std::count_if(
        events.begin(), events.end(), [](const Event& e) { return e.pool == kUnknownPool; }));
  }
  trace.origin.notes.push_back(
      {tr_later("entries do not name their pool; it is deduced from the segments at the end")});
  if (unknown != 0) {
    trace.origin.notes.push_back(
        {tr_later("entries in segments that were given back: their pool is unknown"), unknown});
  }
}

}  // namespace vram::trace::torch
