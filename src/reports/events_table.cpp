// The events of a recording as a table.
#include "explain/moment/curve.hpp"
#include "reports/tables.hpp"
#include "reports/trace_texts.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace vram::reports {
namespace {

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

}  // namespace vram::reports
