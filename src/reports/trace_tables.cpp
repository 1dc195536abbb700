#include "reports/trace_tables.hpp"

#include "base/bytes.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/breakdown.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/state.hpp"
#include "explain/names/names.hpp"
#include "explain/site/scopes.hpp"
#include "reports/recording.hpp"
#include "show/names.hpp"
#include "trace/export/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::reports {
namespace {

// `text(id)` for all ids below `count`.
template <typename Text>
TextsOfIds texts_of(size_t count, Text&& text) {
  DictionaryBuilder builder;
  TextsOfIds result;
  result.index.reserve(count);
  for (size_t id = 0; id < count; ++id) result.index.push_back(builder.index(text(id)));
  result.texts = builder.finish();
  return result;
}

// With room for the line, the separators and two ellipses.
uint64_t max_frame_bytes(const trace::Tables& tables, trace::FrameId id) {
  const trace::Frame& frame = tables.frames[id];
  const auto bytes = [&](trace::StringId text) {
    return std::min(tables.strings[text].size(), trace::kMaxNameBytes);
  };
  return bytes(frame.file) + bytes(frame.function) + 24;
}

void append_plain(std::string& out, std::string_view text) { out += text; }

// What all rows share.
struct EventTexts {
  TextsOfIds device_kinds = texts_of_device_kinds();
  TextsOfIds actions = texts_of_kinds();
  TextsOfIds pools;
  TextsOfIds compile_ids;
  TextsOfIds user_metadata;
  TextsOfIds categories;
  TextsOfIds stacks;

  explicit EventTexts(const trace::Tables& tables)
      : pools(texts_of_pools(tables)),
        compile_ids(texts_of_contexts(tables, &trace::Context::compile_id)),
        user_metadata(texts_of_contexts(tables, &trace::Context::user_metadata)),
        categories(texts_of_contexts(tables, &trace::Context::category)),
        stacks(texts_of_stacks(tables)) {}
};

Batch event_rows(const trace::Trace& trace, const trace::DeviceTrace& device,
                 const explain::EventClock& clock, const EventTexts& texts, uint64_t first,
                 uint64_t count) {
  const auto events = trace.events_of(device).subspan(first, count);
  Batch batch(count);
  batch.add("device", [&](uint64_t) { return device.ordinal; });
  batch.add("device_kind", texts.device_kinds.texts,
            [&](uint64_t) { return texts.device_kinds[static_cast<size_t>(device.kind)]; });
  batch.add("event", [&](uint64_t row) { return first + row; });
  batch.add("time_ns",
            [&](uint64_t row) { return clock.time_ns(static_cast<int64_t>(first + row)); });
  batch.add("time_unix_ns", [&](uint64_t row) {
    return trace.has_time ? std::optional(events[row].time_ns) : std::nullopt;
  });
  batch.add("action", texts.actions.texts,
            [&](uint64_t row) { return texts.actions[static_cast<size_t>(events[row].kind)]; });
  batch.add("address", [&](uint64_t row) { return events[row].address; });
  batch.add("size_bytes", [&](uint64_t row) { return events[row].size_bytes; });
  batch.add("stream", [&](uint64_t row) { return trace.tables.streams[events[row].stream]; });
  batch.add("pool", texts.pools.texts, [&](uint64_t row) { return texts.pools[events[row].pool]; });
  const auto add_context = [&](const char* name, const TextsOfIds& of_contexts) {
    batch.add(name, of_contexts.texts,
              [&](uint64_t row) { return of_contexts[events[row].context]; });
  };
  add_context("compile_id", texts.compile_ids);
  add_context("user_metadata", texts.user_metadata);
  add_context("category", texts.categories);
  batch.add("stack", texts.stacks.texts,
            [&](uint64_t row) { return texts.stacks[events[row].stack]; });
  return batch;
}

}  // namespace

Result<> check_stack_texts(const trace::Tables& tables, uint64_t max_bytes) {
  uint64_t bytes = 0;
  for (size_t frame = 0; frame < tables.frames.size(); ++frame)
    bytes += max_frame_bytes(tables, static_cast<trace::FrameId>(frame));
  for (size_t stack = 0; stack < tables.stacks.size(); ++stack) {
    for (const trace::FrameId frame : tables.stacks[static_cast<trace::StackId>(stack)])
      bytes += max_frame_bytes(tables, frame);
  }
  if (bytes <= max_bytes) return {};
  return fail(
      Code::kTooLarge,
      "the stacks of this recording need {} as texts, and the maximum is {}: use the tables "
      "without stacks (devices, holders, steps, findings, timeline)",
      format_bytes(bytes), format_bytes(max_bytes));
}

TextsOfIds texts_of_stacks(const trace::Tables& tables) {
  trace::FrameTexts frames(tables, append_plain);
  return texts_of(tables.stacks.size(), [&](size_t stack) {
    std::string text;
    for (const trace::FrameId frame : tables.stacks[static_cast<trace::StackId>(stack)]) {
      if (!text.empty()) text += ';';
      text += frames[frame];
    }
    return text;
  });
}

TextsOfIds texts_of_pools(const trace::Tables& tables) {
  return texts_of(tables.pools.size(), [&](size_t pool) {
    const trace::PoolName name = tables.pools[static_cast<trace::PoolId>(pool)];
    return fmt::format("{}:{}", name.first, name.second);
  });
}

TextsOfIds texts_of_contexts(const trace::Tables& tables, trace::StringId trace::Context::* text) {
  return texts_of(tables.contexts.size(), [&](size_t context) {
    return tables.strings[tables.contexts[static_cast<trace::ContextId>(context)].*text];
  });
}

TextsOfIds texts_of_kinds() {
  constexpr auto kCount = static_cast<size_t>(trace::EventKind::kOther) + 1;
  return texts_of(kCount,
                  [](size_t kind) { return to_string(static_cast<trace::EventKind>(kind)); });
}

TextsOfIds texts_of_device_kinds() {
  return texts_of(2, [](size_t kind) { return to_string(static_cast<trace::DeviceKind>(kind)); });
}

Result<Table> events_table(const SharedRecording& recording) {
  VRAM_TRY(check_stack_texts(recording->trace.tables));
  const auto texts = std::make_shared<const EventTexts>(recording->trace.tables);
  Table table;
  for (const trace::DeviceTrace& device : recording->trace.devices) {
    const explain::EventClock clock(recording->trace, device);
    table.parts.push_back(
        {device.event_count, [recording, &device, clock, texts](uint64_t first, uint64_t count) {
           return event_rows(recording->trace, device, clock, *texts, first, count);
         }});
  }
  return table;
}

namespace {

using explain::Dimension;
using explain::Lifetime;

// The holder of each block in one breakdown. Names of holders do not depend on the moment, except
// by age and by pool.
TextsOfIds holders_of_blocks(const explain::Sources& sources, Dimension by) {
  const explain::LiveSet any_moment;
  explain::Grouping grouping(sources, any_moment, by);
  DictionaryBuilder names;
  TextsOfIds result;
  const auto count = static_cast<uint32_t>(sources.history.lifetimes.size());
  std::unordered_map<uint64_t, std::optional<int32_t>> index_of_key;
  result.index.reserve(count);
  for (uint32_t id = 0; id < count; ++id) {
    const auto [entry, is_new] = index_of_key.try_emplace(grouping.key(id));
    if (is_new) entry->second = names.index(grouping.name(id));
    result.index.push_back(entry->second);
  }
  result.texts = names.finish();
  return result;
}

// What the rows of one device are made from.
struct DeviceBlocks {
  explain::History history;
  explain::EventClock clock;
  TextsOfIds names;
  TextsOfIds scopes;
  TextsOfIds categories;

  DeviceBlocks(const trace::Trace& trace, const trace::DeviceTrace& device)
      : history(explain::replay_history(trace, device)), clock(trace, device) {
    const explain::Scopes found_scopes = explain::build_scopes(trace, device);
    const explain::Names found_names = explain::find_names(trace, device, history);
    const explain::Curve no_curve;  // names do not depend on totals
    const explain::Sources sources{trace,    device,       history,    clock,
                                   no_curve, found_scopes, found_names};
    names = holders_of_blocks(sources, Dimension::kUserFrame);
    scopes = holders_of_blocks(sources, Dimension::kScope);
    // Without labels every block would be "other", and a report has no such breakdown.
    categories = found_names.has_labels() ? holders_of_blocks(sources, Dimension::kCategory)
                                          : TextsOfIds{DictionaryBuilder().finish(), {}};
  }
};

struct TableTexts {
  TextsOfIds device_kinds = texts_of_device_kinds();
  TextsOfIds pools;
  TextsOfIds stacks;

  explicit TableTexts(const trace::Tables& tables)
      : pools(texts_of_pools(tables)), stacks(texts_of_stacks(tables)) {}
};

// Events of a lifetime are kNever or kBeforeRecording, which are equal, if there is none.
std::optional<uint32_t> event_of(uint32_t event) {
  static_assert(explain::kNever == explain::kBeforeRecording);
  return event == explain::kNever ? std::nullopt : std::optional(event);
}

// The rows [first, first + count) of one device.
class BlockRows {
 public:
  BlockRows(const Recording& recording, size_t device, const DeviceBlocks& blocks, uint64_t first)
      : trace_(recording.trace),
        device_(recording.trace.devices[device]),
        steps_(recording.report.devices[device].steps),
        blocks_(blocks),
        first_(first) {}

  [[nodiscard]] Batch make(const TableTexts& texts, uint64_t count) const {
    Batch batch(count);
    batch.add("device", [&](uint64_t) { return device_.ordinal; });
    batch.add("device_kind", texts.device_kinds.texts,
              [&](uint64_t) { return texts.device_kinds[static_cast<size_t>(device_.kind)]; });
    batch.add("address", [&](uint64_t row) { return at(row).address; });
    batch.add("requested_bytes", [&](uint64_t row) { return at(row).requested_bytes; });
    batch.add("block_bytes", [&](uint64_t row) { return at(row).block_bytes; });
    batch.add("stream", [&](uint64_t row) { return trace_.tables.streams[at(row).stream]; });
    batch.add("pool", texts.pools.texts, [&](uint64_t row) { return texts.pools[at(row).pool]; });
    add_times(batch);
    const auto add_names = [&](const char* name, const TextsOfIds& of_blocks) {
      batch.add(name, of_blocks.texts, [&](uint64_t row) { return of_blocks[first_ + row]; });
    };
    add_names("name", blocks_.names);
    add_names("scope", blocks_.scopes);
    add_names("category", blocks_.categories);
    batch.add("stack", texts.stacks.texts,
              [&](uint64_t row) { return texts.stacks[at(row).stack]; });
    return batch;
  }

 private:
  [[nodiscard]] const Lifetime& at(uint64_t row) const {
    return blocks_.history.lifetimes[first_ + row];
  }
  [[nodiscard]] std::optional<int64_t> time_of(uint32_t event) const {
    const auto known = event_of(event);
    return known ? std::optional(blocks_.clock.time_ns(*known)) : std::nullopt;
  }
  [[nodiscard]] std::optional<uint32_t> free_requested(uint64_t row) const {
    const auto lifetime = static_cast<uint32_t>(first_ + row);
    if (is_pending_before(trace_.events_of(device_), blocks_.history, lifetime))
      return std::nullopt;
    return event_of(at(row).free_requested_event);
  }
  [[nodiscard]] std::optional<uint32_t> step(uint64_t row) const {
    const auto event = event_of(at(row).alloc_event);
    const auto step = event ? show::step_of(steps_, *event) : std::nullopt;
    return step ? std::optional(static_cast<uint32_t>(*step)) : std::nullopt;
  }

  void add_times(Batch& batch) const {
    batch.add("alloc_event", [&](uint64_t row) { return event_of(at(row).alloc_event); });
    batch.add("free_requested_event", [&](uint64_t row) { return free_requested(row); });
    batch.add("free_event", [&](uint64_t row) { return event_of(at(row).free_completed_event); });
    batch.add("alloc_time_ns", [&](uint64_t row) { return time_of(at(row).alloc_event); });
    batch.add("free_time_ns", [&](uint64_t row) { return time_of(at(row).free_completed_event); });
    batch.add("step", [&](uint64_t row) { return step(row); });
  }

  const trace::Trace& trace_;
  const trace::DeviceTrace& device_;
  const explain::Steps& steps_;
  const DeviceBlocks& blocks_;
  uint64_t first_;
};

}  // namespace

Result<Table> allocations_table(const SharedRecording& recording) {
  VRAM_TRY(check_stack_texts(recording->trace.tables));
  const auto texts = std::make_shared<const TableTexts>(recording->trace.tables);
  Table table;
  for (size_t i = 0; i < recording->trace.devices.size(); ++i) {
    const auto blocks =
        std::make_shared<const DeviceBlocks>(recording->trace, recording->trace.devices[i]);
    table.parts.push_back({blocks->history.lifetimes.size(),
                           [recording, i, blocks, texts](uint64_t first, uint64_t count) {
                             return BlockRows(*recording, i, *blocks, first).make(*texts, count);
                           }});
  }
  return table;
}

}  // namespace vram::reports
