#include "pages/device_blocks.hpp"

#include "base/time.hpp"
#include "base/varint.hpp"
#include "trace/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
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

std::vector<uint64_t> distinct_addresses(const explain::History& history,
                                         const std::vector<uint32_t>& ids) {
  std::vector<uint64_t> addresses;
  addresses.reserve(ids.size());
  for (const uint32_t id : ids) addresses.push_back(history.lifetimes[id].address);
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

namespace {

// A lifetime in positions.
struct Life {
  uint64_t begin = 0;
  Ends ends;

  [[nodiscard]] bool is_over(uint64_t position) const {
    return ends.positions != 0 && begin + ends.positions <= position;
  }
};

class LifeReader {
 public:
  explicit LifeReader(const DeviceView& view)
      : history_(view.history), events_(view.trace.events_of(view.device)) {}

  [[nodiscard]] Life read(uint32_t id) const {
    const Lifetime& life = history_.lifetimes[id];
    const bool is_before = life.alloc_event == explain::kBeforeRecording;
    const bool is_pending = is_before && explain::is_pending_before(events_, history_, id);
    return {is_before ? 0 : position_after(life.alloc_event), ends_of(life, is_pending)};
  }

 private:
  const explain::History& history_;
  std::span<const trace::Event> events_;
};

Block part_block(std::string name, const explain::History& history, const LifeReader& reader,
                 const std::vector<uint32_t>& ids, Kinds& kinds) {
  const std::vector<uint64_t> addresses = distinct_addresses(history, ids);
  Column numbers;
  Column begins;
  Column lives;
  Column waits;
  Column kind_column;
  Column address_column;
  uint32_t id_before = 0;
  uint64_t begin_before = 0;
  for (const uint32_t id : ids) {
    const Lifetime& lifetime = history.lifetimes[id];
    const Life life = reader.read(id);
    put_varint(numbers, id - std::exchange(id_before, id));
    put_varint(begins, life.begin - std::exchange(begin_before, life.begin));
    put_varint(lives, life.ends.positions);
    put_varint(waits, life.ends.waits);
    put_varint(kind_column, kinds.of(id, lifetime));
    const auto address = std::ranges::lower_bound(addresses, lifetime.address);
    put_varint(address_column, static_cast<uint64_t>(address - addresses.begin()));
  }
  Column rising;
  put_differences(rising, addresses);
  return columns_block(std::move(name),
                       {&numbers, &begins, &lives, &waits, &kind_column, &address_column, &rising});
}

}  // namespace

std::vector<Block> lifetime_blocks(const std::string& prefix, const DeviceView& view,
                                   const std::vector<Groups>& groups, PageTexts& texts,
                                   uint64_t part_positions) {
  const explain::History& history = view.history;
  const LifeReader reader(view);
  const auto count = static_cast<uint32_t>(history.lifetimes.size());
  const uint64_t positions = view.device.event_count + 1;
  Kinds kinds(groups, texts);
  std::vector<Block> blocks;
  std::vector<uint32_t> ids;  // active somewhere in the part
  uint32_t next = 0;
  for (uint64_t part = 0; part * part_positions < positions; ++part) {
    const uint64_t first = part * part_positions;
    std::erase_if(ids, [&](uint32_t id) { return reader.read(id).is_over(first); });
    while (next < count && reader.read(next).begin < first + part_positions) ids.push_back(next++);
    blocks.push_back(
        part_block(fmt::format("{}.lifetimes{}", prefix, part), history, reader, ids, kinds));
  }
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

Times time_blocks(const std::string& prefix, const DeviceView& view, uint64_t part_positions) {
  const uint64_t positions = view.device.event_count + 1;
  const bool has_time = view.clock.kind() != explain::Clock::kEventIndex;
  // Of the last event before a position.
  const auto time_of = [&](uint64_t position) {
    return view.clock.time_ns(static_cast<int64_t>(position) - 1);
  };
  constexpr int64_t kMicrosecond = 1000;
  bool is_coarse = has_time;
  for (uint64_t position = 0; position < positions && is_coarse; ++position)
    is_coarse = time_of(position) % kMicrosecond == 0;
  Times times{.unit_ns = is_coarse ? kMicrosecond : 1, .blocks = {}};
  int64_t latest = 0;
  for (uint64_t first = 0; first < positions; first += part_positions) {
    Column column;
    int64_t before = 0;
    for (uint64_t position = first;
         has_time && position < std::min(first + part_positions, positions); ++position) {
      latest = std::max(latest, time_of(position));
      put_varint(column, static_cast<uint64_t>(latest - std::exchange(before, latest)) /
                             static_cast<uint64_t>(times.unit_ns));
    }
    times.blocks.push_back(
        columns_block(fmt::format("{}.times{}", prefix, first / part_positions), {&column}));
  }
  return times;
}

Block scope_block(std::string name, const DeviceView& view, PageTexts& texts) {
  std::vector<const explain::Scope*> scopes;
  for (const explain::Scope& scope : view.scopes.all) scopes.push_back(&scope);
  if (scopes.size() > kMaxScopes) {
    const auto duration = [](const explain::Scope* scope) {
      return nanoseconds_between(scope->begin_ns, scope->end_ns);
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
    const int64_t since = nanoseconds_between(origin, scope->begin_ns);
    put_signed(begins, since - std::exchange(begin, since));
    put_signed(durations, nanoseconds_between(scope->begin_ns, scope->end_ns));
  }
  return columns_block(std::move(name), {&names, &depths, &firsts, &counts, &begins, &durations});
}

namespace {

struct Sample {
  int64_t time_ns = 0;  // since the clock's origin
  uint64_t used_bytes = 0;
};

// With what the driver uses itself, as in the report, which a sample states before its end.
std::vector<Sample> find_samples(const DeviceView& view) {
  namespace figures = trace::figures;
  std::vector<Sample> samples;
  if (view.clock.kind() == explain::Clock::kEventIndex ||
      view.device.kind != trace::DeviceKind::kGpu)
    return samples;
  uint64_t driver = 0;
  for (const trace::Figure& figure : view.trace.figures) {
    if (figure.device != view.device.ordinal) continue;
    const std::string_view name = view.trace.tables.strings[figure.name];
    if (name == figures::kDriver) driver = figure.value == figures::kUnknown ? 0 : figure.value;
    if (name == figures::kUsed && figure.value != figures::kUnknown)
      samples.push_back({nanoseconds_between(view.clock.origin_unix_ns(), figure.time_ns),
                         figure.value + driver});
  }
  std::ranges::stable_sort(samples, {}, &Sample::time_ns);
  return samples;
}

}  // namespace

Block sample_block(std::string name, const DeviceView& view) {
  const std::vector<Sample> samples = find_samples(view);
  const size_t run = (samples.size() + kMaxSamples - 1) / kMaxSamples;
  Column times;
  Column bytes;
  Sample before;
  for (size_t first = 0; first < samples.size(); first += run) {
    const auto part = std::span(samples).subspan(first, std::min(run, samples.size() - first));
    const Sample& largest = *std::ranges::max_element(part, {}, &Sample::used_bytes);
    put_signed(times, largest.time_ns - before.time_ns);
    put_signed(bytes, wrapping_difference(largest.used_bytes, before.used_bytes));
    before = largest;
  }
  return columns_block(std::move(name), {&times, &bytes});
}

}  // namespace vram::pages
