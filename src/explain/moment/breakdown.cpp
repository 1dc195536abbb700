// size: the names of holders are tables, with a line for each range
#include "explain/moment/breakdown.hpp"

#include "base/address_map.hpp"
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "base/time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vram::explain {
namespace {

constexpr uint64_t kBeforeKey = std::numeric_limits<uint64_t>::max();
// Sites that are no frames: the upper bits say what, the lower ones which.
constexpr uint64_t kLabelKey = uint64_t{1} << 62;
constexpr uint64_t kPathKey = uint64_t{1} << 61;

constexpr int64_t kMicrosecond = 1'000;
constexpr int64_t kMillisecond = 1'000'000;
constexpr std::array<int64_t, 7> kAgeBoundsNs = {
    100 * kMicrosecond, kMillisecond,         10 * kMillisecond,    100 * kMillisecond,
    kSignedSecondNs,    10 * kSignedSecondNs, 100 * kSignedSecondNs};
constexpr std::array<std::string_view, 8> kAgeNamesNs = {
    tr_later("under 100 us"), tr_later("100 us to 1 ms"), tr_later("1 to 10 ms"),
    tr_later("10 to 100 ms"), tr_later("100 ms to 1 s"),  tr_later("1 to 10 s"),
    tr_later("10 to 100 s"),  tr_later("100 s and more")};
constexpr std::array<int64_t, 7> kAgeBoundsEvents = {10,      100,       1'000,     10'000,
                                                     100'000, 1'000'000, 10'000'000};
constexpr std::array<std::string_view, 8> kAgeNamesEvents = {
    tr_later("under 10 events"),
    tr_later("10 to 100 events"),
    tr_later("100 to 1,000 events"),
    tr_later("1,000 to 10,000 events"),
    tr_later("10,000 to 100,000 events"),
    tr_later("100,000 to 1,000,000 events"),
    tr_later("1,000,000 to 10,000,000 events"),
    tr_later("10,000,000 events and more")};

bool is_before(const Lifetime& lifetime) { return lifetime.alloc_event == kBeforeRecording; }

std::string pool_name(const trace::Tables& tables, uint64_t pool) {
  if (pool == 0) return tr_later("default pool");
  if (pool == trace::kUnknownPool) return tr_later("unknown pool");
  const trace::PoolName name = tables.pools[static_cast<trace::PoolId>(pool)];
  return fmt::format("private pool ({}, {})", name.first, name.second);
}

void add(Holder& holder, const Lifetime& lifetime, const EventClock& clock) {
  const bool before = is_before(lifetime);
  const int64_t born_ns = before ? -1 : clock.time_ns(lifetime.alloc_event);
  holder.oldest_ns = holder.count == 0 ? born_ns : std::min(holder.oldest_ns, born_ns);
  holder.before_recording = (holder.count == 0 || holder.before_recording) && before;
  holder.requested_bytes += lifetime.requested_bytes;
  holder.block_bytes += lifetime.block_bytes;
  holder.largest_bytes = std::max(holder.largest_bytes, lifetime.requested_bytes);
  ++holder.count;
}

}  // namespace

std::string size_class_name(uint64_t requested_bytes) {
  return format_bytes(requested_bytes) + " blocks";
}

Grouping::Grouping(const Sources& sources, const LiveSet& live, Dimension by)
    : sources_(sources), live_(live), by_(by), user_frames_(sources.trace.tables) {
  const Names& names = sources.names;
  const bool has_sites = sources.trace.has_stacks || names.has_labels() || names.has_paths();
  if (by == Dimension::kUserFrame && !has_sites) by_ = Dimension::kSize;
}

trace::StringId Grouping::path_of(const Lifetime& lifetime) const {
  return sources_.trace.tables.contexts[lifetime.context].user_metadata;
}

uint64_t Grouping::site_key(uint32_t id) {
  const Lifetime& lifetime = sources_.history.lifetimes[id];
  if (const Names::Label label = sources_.names.label(id); label != 0) return kLabelKey | label;
  if (lifetime.stack != 0) return user_frames_.frame(lifetime.stack);
  if (is_before(lifetime)) return kBeforeKey;
  if (const trace::StringId path = path_of(lifetime); path != 0) return kPathKey | path;
  return 0;
}

std::string Grouping::site_name(uint32_t id) {
  const trace::Tables& tables = sources_.trace.tables;
  const Lifetime& lifetime = sources_.history.lifetimes[id];
  if (const Names::Label label = sources_.names.label(id); label != 0)
    return sources_.names.text(label);
  if (lifetime.stack != 0)
    return frame_name(tables, tables.frames[user_frames_.frame(lifetime.stack)]);
  if (const trace::StringId path = path_of(lifetime); path != 0)
    return limit_bytes(tables.strings[path], trace::kMaxNameBytes);
  return std::string(sources_.trace.has_stacks ? kNoStackName : kNoScopeName);
}

uint64_t Grouping::key(uint32_t id) {
  const Lifetime& lifetime = sources_.history.lifetimes[id];
  switch (by_) {
    case Dimension::kStack:
      return is_before(lifetime) && lifetime.stack == 0 ? kBeforeKey : lifetime.stack;
    case Dimension::kUserFrame:
      return site_key(id);
    case Dimension::kScope:
      return scope_key(lifetime);
    case Dimension::kSize:
      return lifetime.requested_bytes;
    case Dimension::kStream:
      return lifetime.stream;
    case Dimension::kAge:
      return age_key(lifetime);
    case Dimension::kPool:
      return pool_key(lifetime);
    case Dimension::kCategory:
      return static_cast<uint64_t>(sources_.names.category(id));
    case Dimension::kOperator:
      return is_before(lifetime) && lifetime.stack == 0 ? kBeforeKey : operator_of(lifetime.stack);
  }
  return 0;
}

// Profilers put operators into stacks as functions without a file, as they do those of Python's own
// code that is C: "<built-in function linear>".
trace::StringId Grouping::operator_of(trace::StackId stack) {
  const trace::Tables& tables = sources_.trace.tables;
  const auto [known, is_new] = operators_.try_emplace(stack, 0);
  if (!is_new) return known->second;
  for (const trace::FrameId id : tables.stacks[stack]) {
    const trace::Frame& frame = tables.frames[id];
    if (frame.file != 0 || tables.strings[frame.function].starts_with('<')) continue;
    return known->second = frame.function;
  }
  return 0;
}

uint64_t Grouping::scope_key(const Lifetime& lifetime) const {
  if (is_before(lifetime)) return kBeforeKey;
  const uint32_t scope = sources_.scopes.innermost_at(lifetime.alloc_event);
  return scope == kNoScope ? 0 : uint64_t{sources_.scopes.all[scope].name} + 1;
}

uint64_t Grouping::age_key(const Lifetime& lifetime) const {
  if (is_before(lifetime)) return kBeforeKey;
  const int64_t now = sources_.clock.time_ns(live_.event);
  const int64_t age = now - sources_.clock.time_ns(lifetime.alloc_event);
  const auto& bounds = sources_.clock.kind() == Clock::kTime ? kAgeBoundsNs : kAgeBoundsEvents;
  return static_cast<uint64_t>(std::upper_bound(bounds.begin(), bounds.end(), age) -
                               bounds.begin());
}

uint64_t Grouping::pool_key(const Lifetime& lifetime) const {
  if (lifetime.pool != trace::kUnknownPool) return lifetime.pool;
  const auto segment = live_.segments.containing(lifetime.address);
  return segment == live_.segments.ranges().end() ? trace::kUnknownPool : segment->second.pool;
}

std::string Grouping::name(uint32_t lifetime) {
  const trace::Tables& tables = sources_.trace.tables;
  const Lifetime& member = sources_.history.lifetimes[lifetime];
  const uint64_t id = key(lifetime);
  if (id == kBeforeKey) return std::string(kBeforeName);
  switch (by_) {
    case Dimension::kUserFrame:
      return site_name(lifetime);
    case Dimension::kStack:
      if (member.stack == 0) return std::string(kNoStackName);
      return frame_name(tables, tables.frames[user_frames_.frame(member.stack)]);
    case Dimension::kScope:
      return id == 0 ? std::string(kNoScopeName)
                     : limit_bytes(tables.strings[static_cast<trace::StringId>(id - 1)],
                                   trace::kMaxNameBytes);
    case Dimension::kSize:
      return size_class_name(id);
    case Dimension::kStream:
      return id == 0 ? tr_later("default stream")
                     : fmt::format("stream {:#x}", tables.streams[member.stream]);
    case Dimension::kAge:
      return std::string(sources_.clock.kind() == Clock::kTime ? kAgeNamesNs[id]
                                                               : kAgeNamesEvents[id]);
    case Dimension::kPool:
      return pool_name(tables, id);
    case Dimension::kCategory:
      return std::string(to_string(static_cast<Category>(id)));
    case Dimension::kOperator:
      return id == 0 ? tr_later("outside all operators")
                     : limit_bytes(tables.strings[static_cast<trace::StringId>(id)],
                                   trace::kMaxNameBytes);
  }
  return {};
}

Breakdown break_down(const Sources& sources, const LiveSet& live, Dimension by) {
  Grouping grouping(sources, live, by);
  std::vector<Holder> holders;
  AddressMap holder_of_key;
  std::unordered_map<std::string, uint32_t> holder_of_name;
  std::vector<trace::StackId> stacks;  // by holder
  uint64_t names_room_bytes = kMaxNamesBytes;
  for (const uint32_t id : live.lifetimes) {
    const Lifetime& lifetime = sources.history.lifetimes[id];
    const uint64_t key = grouping.key(id);
    uint32_t holder = holder_of_key.find(key);
    if (holder == AddressMap::kNone) {
      holder = static_cast<uint32_t>(holders.size());
      std::string name = fit_name(grouping.name(id), names_room_bytes);
      if (by != Dimension::kStack) holder = holder_of_name.try_emplace(name, holder).first->second;
      if (holder == holders.size()) {
        holders.emplace_back().name = std::move(name);
        if (by == Dimension::kStack) stacks.push_back(lifetime.stack);
      }
      holder_of_key.set(key, holder);
    }
    add(holders[holder], lifetime, sources.clock);
  }
  std::vector<size_t> order(holders.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    const Holder& a = holders[left];
    const Holder& b = holders[right];
    return a.requested_bytes != b.requested_bytes ? a.requested_bytes > b.requested_bytes
                                                  : a.name < b.name;
  });
  Breakdown breakdown{by, {}};
  uint64_t room_bytes = kMaxStacksBytes;  // the largest holders are the first to have stacks
  for (const size_t i : order) {
    Holder& holder = breakdown.holders.emplace_back(std::move(holders[i]));
    if (!stacks.empty()) holder.stack = report_stack(sources.trace.tables, stacks[i], room_bytes);
  }
  return breakdown;
}

namespace {

bool is_pending_at(const Sources& sources, uint32_t lifetime, int64_t event) {
  const History& history = sources.history;
  if (event == kBeforeFirstEvent)
    return is_pending_before(sources.trace.events_of(sources.device), history, lifetime);
  return !history.allocated_at(history.lifetimes[lifetime], event);
}

// Whole granules inside a free range of an expandable segment: pages are unmapped by granule only.
uint64_t whole_granules(uint64_t begin, uint64_t size_bytes, uint64_t granule_bytes) {
  const uint64_t first = (begin + granule_bytes - 1) / granule_bytes;
  const uint64_t last = (begin + size_bytes) / granule_bytes;
  return last > first ? (last - first) * granule_bytes : 0;
}

bool is_private(const SegmentRange& range) {
  return range.pool != 0 && range.pool != trace::kUnknownPool;
}

uint64_t releasable_of(const SegmentView& segment, const AllocatorRules& rules,
                       uint64_t hole_address, uint64_t hole_bytes) {
  const SegmentRange& range = segment.range;
  if (hole_bytes == range.size_bytes) return hole_bytes;
  if (!range.is_expandable) return 0;
  const uint64_t granule = rules.granule_bytes(range.is_small);
  return whole_granules(hole_address - segment.address, hole_bytes, granule);
}

std::string domain_name(const trace::Tables& tables, const AllocatorRules& rules,
                        const SegmentRange& range) {
  if (rules.is_of_vram(range.context)) return tr("vram's pool");
  const char* const sizes = range.is_small ? tr("requests up to 1 MiB") : tr("requests over 1 MiB");
  return range.stream == 0 ? trf("{}, default stream", sizes)
                           : trf("{}, stream {:#x}", sizes, tables.streams[range.stream]);
}

// Do live blocks use so little of the segment that they pin it?
bool is_pinned(const Sources& sources, const LiveSet& live, const SegmentView& segment) {
  uint64_t live_bytes = 0;
  for (size_t i = segment.first; i < segment.last; ++i)
    live_bytes += sources.history.lifetimes[live.lifetimes[i]].block_bytes;
  return static_cast<double>(live_bytes) <=
         kMaxPinningShare * static_cast<double>(segment.range.size_bytes);
}

// The stream with most reserved memory.
trace::StreamId main_stream(const LiveSet& live) {
  std::vector<uint64_t> reserved(1);
  for (const auto& [address, range] : live.segments.ranges()) {
    if (range.stream >= reserved.size()) reserved.resize(range.stream + size_t{1});
    reserved[range.stream] += range.size_bytes;
  }
  return static_cast<trace::StreamId>(std::ranges::max_element(reserved) - reserved.begin());
}

void measure_segment(const Sources& sources, const AllocatorRules& rules, const LiveSet& live,
                     const SegmentView& segment, trace::StreamId main, Waste& waste) {
  const bool pinned = is_pinned(sources, live, segment);
  for_each_hole(sources.history, live, segment, [&](uint64_t address, uint64_t size_bytes) {
    if (is_private(segment.range)) {
      waste.private_pool_bytes += size_bytes;
      return;
    }
    const uint64_t releasable = releasable_of(segment, rules, address, size_bytes);
    waste.releasable_bytes += releasable;
    if (segment.range.is_small) {
      waste.releasable_small_bytes += releasable;
    } else if (segment.range.stream != main) {
      waste.releasable_side_bytes += releasable;
    }
    waste.stranded_bytes += size_bytes - releasable;
    waste.pinned_bytes += pinned ? size_bytes - releasable : 0;
    waste.hole_count += releasable < size_bytes ? 1 : 0;
    // The small pool serves requests up to 1 MiB only, however large its hole.
    const uint64_t usable = segment.range.is_small && !rules.is_of_vram(segment.range.context)
                                ? std::min(size_bytes, kSmallRequestBytes)
                                : size_bytes;
    if (usable <= waste.largest_hole_bytes) return;
    waste.largest_hole_bytes = usable;
    waste.largest_hole_domain = domain_name(sources.trace.tables, rules, segment.range);
  });
}

struct Pinned {
  uint64_t stranded_bytes = 0;
  uint64_t live_bytes = 0;
  uint64_t site = 0;
};

// The one site of all its live blocks, when there is only one.
std::optional<Pinned> single_site(const Sources& sources, const AllocatorRules& rules,
                                  const LiveSet& live, const SegmentView& segment,
                                  Grouping& sites) {
  if (segment.first == segment.last || is_private(segment.range)) return std::nullopt;
  Pinned pinned;
  for (size_t i = segment.first; i < segment.last; ++i) {
    const Lifetime& lifetime = sources.history.lifetimes[live.lifetimes[i]];
    const uint64_t site = sites.key(live.lifetimes[i]);
    if (i == segment.first) pinned.site = site;
    if (site != pinned.site || is_pending_at(sources, live.lifetimes[i], live.event)) {
      return std::nullopt;
    }
    pinned.live_bytes += lifetime.block_bytes;
  }
  for_each_hole(sources.history, live, segment, [&](uint64_t address, uint64_t size_bytes) {
    pinned.stranded_bytes += size_bytes - releasable_of(segment, rules, address, size_bytes);
  });
  if (pinned.stranded_bytes == 0) return std::nullopt;
  return pinned;
}

}  // namespace

Waste measure_waste(const Sources& sources, const AllocatorRules& rules, const LiveSet& live) {
  Waste waste;
  for (const uint32_t id : live.lifetimes) {
    const Lifetime& lifetime = sources.history.lifetimes[id];
    if (is_pending_at(sources, id, live.event)) {
      waste.pending_bytes += lifetime.block_bytes;
      waste.pending_requested_bytes += lifetime.requested_bytes;
    } else {
      waste.rounding_bytes += lifetime.block_bytes - lifetime.requested_bytes;
    }
  }
  const trace::StreamId main = main_stream(live);
  for (const SegmentView& segment : view_segments(sources.history, live)) {
    measure_segment(sources, rules, live, segment, main, waste);
  }
  return waste;
}

std::vector<Pinner> find_pinners(const Sources& sources, const AllocatorRules& rules,
                                 const LiveSet& live) {
  Grouping sites(sources, live, Dimension::kUserFrame);
  std::unordered_map<std::string, Pinner> by_name;
  uint64_t names_room_bytes = kMaxNamesBytes;
  for (const SegmentView& segment : view_segments(sources.history, live)) {
    const std::optional<Pinned> pinned = single_site(sources, rules, live, segment, sites);
    if (!pinned) continue;
    std::string name = sites.name(live.lifetimes[segment.first]);
    if (!by_name.contains(name)) name = fit_name(std::move(name), names_room_bytes);
    Pinner& pinner = by_name[std::move(name)];
    pinner.pinned_bytes += pinned->live_bytes;
    pinner.stranded_bytes += pinned->stranded_bytes;
    ++pinner.segment_count;
  }
  std::vector<Pinner> pinners;
  for (auto& [name, pinner] : by_name) {
    pinner.name = name;
    pinners.push_back(std::move(pinner));
  }
  std::sort(pinners.begin(), pinners.end(), [](const Pinner& a, const Pinner& b) {
    return a.stranded_bytes != b.stranded_bytes ? a.stranded_bytes > b.stranded_bytes
                                                : a.name < b.name;
  });
  return pinners;
}

}  // namespace vram::explain
