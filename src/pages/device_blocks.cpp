#include "pages/device_blocks.hpp"

#include "base/varint.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

namespace vram::pages {
namespace {

using explain::DeviceView;
using explain::Lifetime;

uint64_t position_after(uint32_t event) { return uint64_t{event} + 1; }

// What many blocks share. Numbers kinds in the order in which they come.
class Kinds {
 public:
  explicit Kinds(const std::vector<Groups>& groups, PageTexts& texts)
      : groups_(groups), texts_(texts), columns_(3 + groups.size()) {}

  [[nodiscard]] uint32_t of(uint32_t id, const Lifetime& life) {
    key_.clear();
    key_.push_back(life.requested_bytes);
    key_.push_back(life.block_bytes);
    key_.push_back(texts_.stack(life.stack));
    for (const Groups& groups : groups_) key_.push_back(groups.of_lifetime[id]);
    const auto [entry, is_new] = ids_.try_emplace(key_, static_cast<uint32_t>(ids_.size()));
    if (is_new) {
      for (size_t i = 0; i < key_.size(); ++i) put_varint(columns_[i], key_[i]);
    }
    return entry->second;
  }
  [[nodiscard]] Block take(std::string name) const {
    std::vector<const Column*> columns;
    for (const Column& column : columns_) columns.push_back(&column);
    return columns_block(std::move(name), columns);
  }

 private:
  struct Hash {
    size_t operator()(const std::vector<uint64_t>& key) const {
      uint64_t hash = 0;
      for (const uint64_t part : key) hash = (hash ^ part) * 0x9e3779b97f4a7c15U;
      return hash ^ hash >> 32;
    }
  };
  const std::vector<Groups>& groups_;
  PageTexts& texts_;
  std::vector<Column> columns_;
  std::vector<uint64_t> key_;
  std::unordered_map<std::vector<uint64_t>, uint32_t, Hash> ids_;
};

std::vector<uint64_t> distinct_addresses(const explain::History& history) {
  std::vector<uint64_t> addresses;
  addresses.reserve(history.lifetimes.size());
  for (const Lifetime& life : history.lifetimes) addresses.push_back(life.address);
  std::ranges::sort(addresses);
  const auto rest = std::ranges::unique(addresses);
  addresses.erase(rest.begin(), rest.end());
  return addresses;
}

struct Ends {
  uint64_t positions = 0;  // until it is free; 0: never
  uint64_t waits = 0;
};

// `before_pending`: its free was requested before the first event. That counts as position 0, as
// the allocation of all blocks from before the recording does.
Ends ends_of(const Lifetime& life, bool before_pending) {
  const uint64_t begin =
      life.alloc_event == explain::kBeforeRecording ? 0 : position_after(life.alloc_event);
  const bool is_requested = before_pending || life.free_requested_event != explain::kNever;
  const uint64_t requested =
      is_requested && !before_pending ? position_after(life.free_requested_event) : 0;
  if (life.free_completed_event == explain::kNever)
    return {0, is_requested ? requested - begin + 1 : 0};
  const uint64_t end = position_after(life.free_completed_event);
  return {end - begin, is_requested && requested <= end ? end - requested : 0};
}

void put_differences(Column& column, const std::vector<uint64_t>& rising) {
  uint64_t before = 0;
  for (const uint64_t value : rising) put_varint(column, value - before), before = value;
}

}  // namespace

std::vector<Block> lifetime_blocks(const std::string& prefix, const DeviceView& view,
                                   const std::vector<Groups>& groups, PageTexts& texts) {
  const explain::History& history = view.history;
  const auto events = view.trace.events_of(view.device);
  const std::vector<uint64_t> addresses = distinct_addresses(history);
  Kinds kinds(groups, texts);
  Column begins;
  Column lives;
  Column waits;
  Column kind_column;
  Column address_column;
  uint64_t before = 0;
  for (uint32_t id = 0; id < history.lifetimes.size(); ++id) {
    const Lifetime& life = history.lifetimes[id];
    const bool is_before = life.alloc_event == explain::kBeforeRecording;
    const uint64_t begin = is_before ? 0 : position_after(life.alloc_event);
    put_varint(begins, begin - before);
    before = begin;
    const Ends ends = ends_of(life, is_before && explain::is_pending_before(events, history, id));
    put_varint(lives, ends.positions);
    put_varint(waits, ends.waits);
    put_varint(kind_column, kinds.of(id, life));
    const auto address = std::ranges::lower_bound(addresses, life.address);
    put_varint(address_column, static_cast<uint64_t>(address - addresses.begin()));
  }
  Column rising;
  put_differences(rising, addresses);
  std::vector<Block> blocks;
  blocks.push_back(columns_block(
      prefix + ".lifetimes", {&begins, &lives, &waits, &kind_column, &address_column, &rising}));
  blocks.push_back(kinds.take(prefix + ".kinds"));
  return blocks;
}

namespace {

// Bits of the column `what`.
constexpr uint64_t kRemoved = 1;
constexpr uint64_t kExpandable = 2;
constexpr uint64_t kSmall = 4;
constexpr uint64_t kPrivate = 8;

class SegmentColumns {
 public:
  void put(uint64_t position, uint64_t what, uint64_t address, const replay::SegmentRange& range,
           uint32_t stack) {
    put_varint(positions_, position - std::exchange(position_, position));
    if (range.is_expandable) what |= kExpandable;
    if (range.is_small) what |= kSmall;
    if (range.pool != 0 && range.pool != trace::kUnknownPool) what |= kPrivate;
    put_varint(whats_, what);
    put_signed(addresses_, wrapping_difference(address, std::exchange(address_, address)));
    put_varint(bytes_, range.size_bytes);
    put_varint(streams_, range.stream);
    put_varint(stacks_, stack);
  }
  [[nodiscard]] Block take(std::string name) const {
    return columns_block(std::move(name),
                         {&positions_, &whats_, &addresses_, &bytes_, &streams_, &stacks_});
  }

 private:
  uint64_t position_ = 0;
  uint64_t address_ = 0;
  Column positions_;
  Column whats_;
  Column addresses_;
  Column bytes_;
  Column streams_;
  Column stacks_;
};

}  // namespace

Block segment_block(std::string name, const DeviceView& view, PageTexts& texts) {
  SegmentColumns columns;
  for (const auto& [address, range] : view.history.initial_segments.ranges())
    columns.put(0, 0, address, range, 0);
  const auto events = view.trace.events_of(view.device);
  auto ignored = view.history.ignored_segment_events.begin();
  for (uint32_t index = 0; index < events.size(); ++index) {
    const trace::Event& event = events[index];
    if (!trace::is_segment_event(event.kind)) continue;
    while (ignored != view.history.ignored_segment_events.end() && *ignored < index) ++ignored;
    if (ignored != view.history.ignored_segment_events.end() && *ignored == index) continue;
    const bool is_removed = event.kind == trace::EventKind::kSegmentFree ||
                            event.kind == trace::EventKind::kSegmentUnmap;
    columns.put(position_after(index), is_removed ? kRemoved : 0, event.address,
                replay::range_of(event), texts.stack(event.stack));
  }
  return columns.take(std::move(name));
}

Times time_block(std::string name, const DeviceView& view) {
  const auto count = static_cast<int64_t>(view.device.event_count);
  Times times;
  if (view.clock.kind() == explain::Clock::kEventIndex) {
    times.block = columns_block(std::move(name), {});
    return times;
  }
  constexpr int64_t kMicrosecond = 1000;
  bool is_coarse = true;
  for (int64_t event = 0; event < count && is_coarse; ++event)
    is_coarse = view.clock.time_ns(event) % kMicrosecond == 0;
  times.unit_ns = is_coarse ? kMicrosecond : 1;
  Column column;
  int64_t latest = 0;
  for (int64_t event = 0; event < count; ++event) {
    const int64_t now = std::max(latest, view.clock.time_ns(event));
    put_varint(column, static_cast<uint64_t>(now - latest) / static_cast<uint64_t>(times.unit_ns));
    latest = now;
  }
  times.block = columns_block(std::move(name), {&column});
  return times;
}

Block scope_block(std::string name, const DeviceView& view, PageTexts& texts) {
  std::vector<const explain::Scope*> scopes;
  for (const explain::Scope& scope : view.scopes.all) scopes.push_back(&scope);
  if (scopes.size() > kMaxScopes) {
    const auto duration = [](const explain::Scope* scope) {
      return explain::nanoseconds_between(scope->begin_ns, scope->end_ns);
    };
    std::ranges::nth_element(scopes, scopes.begin() + kMaxScopes, std::greater<>(), duration);
    scopes.resize(kMaxScopes);
    // By address: they are elements of one array, in order of their begin.
    std::ranges::sort(scopes);
  }
  Column names;
  Column depths;
  Column firsts;
  Column counts;
  Column begins;
  Column durations;
  uint64_t first = 0;
  int64_t begin = 0;
  const int64_t origin = view.clock.origin_unix_ns();
  for (const explain::Scope* scope : scopes) {
    put_varint(names, texts.text(std::string(view.trace.tables.strings[scope->name])));
    put_varint(depths, scope->depth);
    put_signed(firsts,
               wrapping_difference(scope->first_event, std::exchange(first, scope->first_event)));
    put_varint(counts, scope->end_event - scope->first_event);
    const int64_t since = explain::nanoseconds_between(origin, scope->begin_ns);
    put_signed(begins, explain::nanoseconds_between(std::exchange(begin, since), since));
    put_signed(durations, explain::nanoseconds_between(scope->begin_ns, scope->end_ns));
  }
  return columns_block(std::move(name), {&names, &depths, &firsts, &counts, &begins, &durations});
}

}  // namespace vram::pages
