// The events and the allocations of a recording as tables; and what the ids in a trace mean, as
// dictionaries: made once for a table, not for each row.
#pragma once

#include "base/result.hpp"
#include "reports/recording.hpp"
#include "trace/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vram::reports {

// Texts by the ids that rows carry.
struct TextsOfIds {
  Dictionary texts;
  std::vector<std::optional<int32_t>> index;

  [[nodiscard]] std::optional<int32_t> operator[](size_t id) const {
    return id < index.size() ? index[id] : std::nullopt;
  }
};

// Frames repeat in stacks and may have long texts, so the stacks of a small file may be larger as
// texts than any memory.
inline constexpr uint64_t kMaxStackTextBytes = uint64_t{4} << 30;

// kTooLarge: the frames and stacks need more than `max_bytes` as texts.
[[nodiscard]] Result<> check_stack_texts(const trace::Tables& tables,
                                         uint64_t max_bytes = kMaxStackTextBytes);

// "file:line function" joined by ';', innermost first, as `vram convert` writes stacks.
[[nodiscard]] TextsOfIds texts_of_stacks(const trace::Tables& tables);
// "first:second"; nothing for kUnknownPool.
[[nodiscard]] TextsOfIds texts_of_pools(const trace::Tables& tables);
// By ContextId: one of the texts of a context.
[[nodiscard]] TextsOfIds texts_of_contexts(const trace::Tables& tables,
                                           trace::StringId trace::Context::* text);
// By EventKind.
[[nodiscard]] TextsOfIds texts_of_kinds();
// By DeviceKind: "gpu", "host".
[[nodiscard]] TextsOfIds texts_of_device_kinds();

// One row for each event, in the recorded order, device after device.
[[nodiscard]] Result<Table> events_table(const SharedRecording& recording);
// One row for each use of an address, from allocation to free. Computes the history of every device
// again, which explain() does not keep.
[[nodiscard]] Result<Table> allocations_table(const SharedRecording& recording);

}  // namespace vram::reports
