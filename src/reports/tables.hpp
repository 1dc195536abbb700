// The tables of a recording. Each keeps the recording as long as it exists. Those with stacks may
// fail with kTooLarge.
#pragma once

#include "base/result.hpp"
#include "reports/recording.hpp"
#include "reports/table.hpp"

#include <memory>

namespace vram::reports {

using SharedRecording = std::shared_ptr<const Recording>;

// One row for each event, in the recorded order, device after device.
[[nodiscard]] Result<Table> events_table(const SharedRecording& recording);
// One row for each use of an address, from allocation to free. Computes the history of every device
// again, which explain() does not keep.
[[nodiscard]] Result<Table> allocations_table(const SharedRecording& recording);

// The parts of the report that are lists or figures, under the names of docs/json.md.
[[nodiscard]] Result<Table> devices_table(const SharedRecording& recording);
// The holders of every breakdown, at the peaks of requested and of reserved bytes.
[[nodiscard]] Result<Table> holders_table(const SharedRecording& recording);
[[nodiscard]] Result<Table> steps_table(const SharedRecording& recording);
[[nodiscard]] Result<Table> findings_table(const SharedRecording& recording);
[[nodiscard]] Result<Table> timeline_table(const SharedRecording& recording);

}  // namespace vram::reports
