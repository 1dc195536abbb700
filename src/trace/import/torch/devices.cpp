#include "trace/import/torch/devices.hpp"

#include "base/python_text.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <tuple>

namespace vram::trace::torch {

using pickle::Value;

namespace {

uint32_t ordinal_of(uint64_t device) {
  return static_cast<uint32_t>(std::min<uint64_t>(device, std::numeric_limits<uint32_t>::max()));
}

// A file made from a profile has one trace more than devices: the CPU's, the last.
std::optional<uint32_t> cpu_ordinal(const Collected& all) {
  if (!all.has_categories || !is(all.root[kDeviceTraces], kTraces)) return std::nullopt;
  const Traces& traces = all.traces[all.root[kDeviceTraces].payload()];
  if (traces.truncated) return std::nullopt;
  return static_cast<uint32_t>(traces.lists.size() - 1);
}

Result<> gather_traces(Collected& all, Key key, DeviceKind kind, DeviceMap& devices,
                       ListOwners& owners) {
  if (!is(all.root[key], kTraces)) return {};
  const Traces& traces = all.traces[all.root[key].payload()];
  const std::optional<uint32_t> cpu = key == kDeviceTraces ? cpu_ordinal(all) : std::nullopt;
  for (uint32_t i = 0; i < traces.lists.size(); ++i) {
    if (traces.lists[i] == Traces::kNoEntries) continue;
    Range& range = all.entry_lists[traces.lists[i]];
    if (range.taken) {
      return fail(Code::kBadInput,
                  "two devices share one list of entries, which no recording does");
    }
    range.taken = true;
    const bool is_cpu = cpu == i;
    const DeviceKey device = is_cpu ? DeviceKey{DeviceKind::kHost, 0} : DeviceKey{kind, i};
    owners[traces.lists[i]] = device;
    devices[device] = {range.first, range.count, range.count + range.left_out, range.truncated, {}};
  }
  return {};
}

void gather_segments(Collected& all, const Value& list, DeviceKind kind, uint32_t cpu,
                     DeviceMap& devices) {
  if (!is(list, kSegmentList)) return;
  Range& range = all.segment_lists[list.payload()];
  if (range.taken) return;
  range.taken = true;
  for (uint64_t i = range.first; i < range.first + range.count; ++i) {
    const uint32_t ordinal = ordinal_of(all.segments[i].device);
    const bool is_cpu = kind == DeviceKind::kGpu && ordinal == cpu;
    const DeviceKey device = is_cpu ? DeviceKey{DeviceKind::kHost, 0} : DeviceKey{kind, ordinal};
    devices[device].segments.push_back(i);
  }
}

}  // namespace

Result<DeviceMap> gather_devices(Collected& all, const VramPart& part, ListOwners& owners) {
  DeviceMap devices;
  const DeviceKind first = part.has_hosts_as_gpus ? DeviceKind::kHost : DeviceKind::kGpu;
  Result<> gathered = gather_traces(all, kDeviceTraces, first, devices, owners).and_then([&] {
    return gather_traces(all, kHostTraces, DeviceKind::kHost, devices, owners);
  });
  if (!gathered) return tl::unexpected(gathered.error());
  const uint32_t cpu = cpu_ordinal(all).value_or(std::numeric_limits<uint32_t>::max());
  gather_segments(all, all.root[kSegments], first, cpu, devices);
  gather_segments(all, all.root[kHostSegments], DeviceKind::kHost, cpu, devices);
  return devices;
}

Result<> order_events(PodVector<Event>& events, DeviceMap& devices) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  bool in_order = true;
  for (const auto& [key, pieces] : devices) {
    if (pieces.event_count == 0) continue;
    in_order = in_order && (ranges.empty() || ranges.back().second <= pieces.first_event);
    ranges.emplace_back(pieces.first_event, pieces.first_event + pieces.event_count);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      return fail(Code::kBadInput, "two lists share entries, which no recording does");
    }
  }
  PodVector<Event> ordered;
  uint64_t next = 0;
  for (auto& [key, pieces] : devices) {
    if (in_order) {
      // The usual case: in place, and nothing moves unless entries were left out in between.
      if (next != pieces.first_event && pieces.event_count != 0) {
        std::memmove(static_cast<void*>(events.data() + next), events.data() + pieces.first_event,
                     pieces.event_count * sizeof(Event));
      }
    } else {
      ordered.append(events.data() + pieces.first_event, pieces.event_count);
    }
    pieces.first_event = next;
    next += pieces.event_count;
  }
  if (in_order) {
    events.truncate(next);
  } else {
    events = std::move(ordered);
  }
  return {};
}

void place_segments(Collected& all, const DevicePieces& pieces, bool only_device,
                    DeviceTrace& device) {
  // With one device the blocks stay where they are; else each device gets a copy of its own. So it
  // is, too, where the file holds blocks that are in no segment.
  uint64_t block_count = 0;
  for (const uint64_t index : pieces.segments)
    block_count += all.segments[index].segment.block_count;
  const bool take_all = only_device && block_count == all.blocks.size();
  if (take_all) device.blocks = std::move(all.blocks);
  for (const uint64_t index : pieces.segments) {
    Segment segment = all.segments[index].segment;
    if (!take_all) {
      const uint64_t first = device.blocks.size();
      device.blocks.append(all.blocks.data() + segment.first_block, segment.block_count);
      segment.first_block = first;
    }
    if (segment.block_count == 0) segment.first_block = 0;
    device.segments.push_back(segment);
  }
  std::sort(device.segments.begin(), device.segments.end(), [](const Segment& a, const Segment& b) {
    return std::tie(a.address, a.first_block) < std::tie(b.address, b.first_block);
  });
}

using pickle::Kind;
using pickle::Value;

namespace {

constexpr size_t kMaxSettings = 4096;  // shared dictionaries could make them endless
constexpr int kMaxDepth = 8;

// Settings can share texts as frames do.
std::string limited(std::string_view text) { return limit_bytes(text, kMaxNameBytes); }

std::string value_text(const Collected& all, const Value& value);

std::string list_text(const Collected& all, const Value& list) {
  if (is(list, kPair)) {
    const PoolName pair = pair_of(list);
    return fmt::format("[{}, {}]", pair.first, pair.second);
  }
  std::string text;
  const auto add = [&text](const std::string& item) {
    text += (text.empty() ? "" : ", ") + item;
    return text.size() <= kMaxNameBytes;
  };
  if (is(list, kScalars)) {
    for (const Value& item : all.scalar_lists[list.payload()]) {
      if (!add(value_text(all, item))) break;
    }
  } else if (is(list, kStack)) {
    const Tables& tables = all.trace.tables;
    for (const FrameId frame : tables.stacks[static_cast<StackId>(list.payload())]) {
      if (!add(limited(tables.strings[tables.frames[frame].function]))) break;
    }
  }
  return '[' + limited(text) + ']';
}

std::string value_text(const Collected& all, const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.payload() != 0 ? "True" : "False";
    case Kind::kInt:
      return std::to_string(value.integer());
    case Kind::kWideInt:
      return std::to_string(static_cast<int64_t>(all.numbers.bits(value)));
    case Kind::kUnsigned:
      return std::to_string(all.numbers.bits(value));
    case Kind::kFloat:
      return python_float(std::bit_cast<double>(all.numbers.bits(value)));
    case Kind::kText:
      return limited(all.texts.view(static_cast<uint32_t>(value.payload())));
    case Kind::kRecord:
      return list_text(all, value);
    default:
      return "?";
  }
}

void flatten(const Collected& all, const Items& items, const std::string& prefix, int depth,
             std::vector<Setting>& settings) {
  for (const auto& [key, value] : items) {
    if (settings.size() >= kMaxSettings) return;
    const std::string name = limited(prefix + value_text(all, key));
    if (is(value, kDict)) {
      if (depth < kMaxDepth)
        flatten(all, all.dicts[value.payload()], name + '.', depth + 1, settings);
    } else {
      settings.push_back({name, value_text(all, value)});
    }
  }
}

const Value* find_setting(const Collected& all, std::string_view name) {
  if (!is(all.root[kAllocatorSettings], kDict)) return nullptr;
  for (const auto& [key, value] : all.dicts[all.root[kAllocatorSettings].payload()]) {
    if (key.kind() == Kind::kText && all.texts.view(static_cast<uint32_t>(key.payload())) == name) {
      return &value;
    }
  }
  return nullptr;
}

bool is_true(const Value& value) {
  return (value.kind() == Kind::kBool || value.kind() == Kind::kInt) && value.payload() != 0;
}

}  // namespace

std::vector<Setting> flatten_settings(Collected& all) {
  std::vector<Setting> settings;
  if (is(all.root[kAllocatorSettings], kDict)) {
    flatten(all, all.dicts[all.root[kAllocatorSettings].payload()], "", 0, settings);
  }
  if (settings.size() >= kMaxSettings) {
    all.anomalies.count(tr_later("allocator settings beyond the 4,096th, left out"));
  }
  return settings;
}

RingFlags ring_flags(const Collected& all) {
  RingFlags flags;
  if (const Value* value = find_setting(all, "trace_alloc_overflowed")) {
    if (is(*value, kScalars)) {
      for (const Value& item : all.scalar_lists[value->payload()])
        flags.of_device.push_back(is_true(item));
    } else if (is(*value, kPair)) {
      flags.of_device = {pair_of(*value).first != 0, pair_of(*value).second != 0};
    } else {
      flags.of_all = is_true(*value);
    }
  }
  if (const Value* value = find_setting(all, "trace_alloc_max_entries")) {
    flags.max_entries = all.numbers.amount(*value);
  }
  return flags;
}

namespace {

// The items of a dictionary within another; none if there is no such one.
const Items* find_items(const Collected& all, const Items& items, std::string_view name) {
  for (const auto& [key, value] : items) {
    if (key.kind() == Kind::kText && is(value, kDict) &&
        all.texts.view(static_cast<uint32_t>(key.payload())) == name)
      return &all.dicts[value.payload()];
  }
  return nullptr;
}

std::vector<Setting> vram_items(const Collected& all, const Items& part, std::string_view name) {
  std::vector<Setting> found;
  const Items* const items = find_items(all, part, name);
  if (items == nullptr) return found;
  for (const auto& [key, value] : *items) {
    const std::string text = value_text(all, key);
    if (text.starts_with(kVramItem))
      found.push_back({text.substr(kVramItem.size()), value_text(all, value)});
  }
  return found;
}

std::set<std::string> vram_devices(const Collected& all, const Items& part, std::string_view name) {
  std::set<std::string> devices;
  for (const Setting& item : vram_items(all, part, name)) devices.insert(item.key);
  return devices;
}

uint64_t number_of(const std::string& text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

VramPart vram_part(const Collected& all) {
  VramPart part;
  if (!all.is_of_vram || !is(all.root[kVram], kDict)) return part;
  const Items& items = all.dicts[all.root[kVram].payload()];
  part.about = vram_items(all, items, kVramAbout);
  for (const Setting& note : vram_items(all, items, kVramNotes))
    part.notes.push_back({note.key, number_of(note.value)});
  for (const Setting& origin : vram_items(all, items, kVramOrigin)) {
    if (origin.key == kVramFormat) part.format = origin.value;
    if (origin.key == kVramTruncated) part.truncated_at_byte = number_of(origin.value);
  }
  part.overflowed = vram_devices(all, items, kVramOverflowed);
  part.replayed_ends = vram_devices(all, items, kVramReplayedEnds);
  part.has_hosts_as_gpus = find_items(all, items, kVramAsGpus) != nullptr;
  return part;
}

}  // namespace vram::trace::torch
