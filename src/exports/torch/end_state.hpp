// EndState: the segments and blocks of a device after its last event, as PyTorch's allocator lists
// them: the blocks of a segment fill it. Recorded states are taken as they are; of recordings
// without one, it is what the replay of the events ends with.
#pragma once

#include "base/pod_vector.hpp"
#include "explain/history/history.hpp"
#include "trace/trace.hpp"

#include <vector>

namespace vram::exports {

struct EndState {
  std::vector<trace::Segment> segments;  // by address
  PodVector<trace::Block> blocks;
};

// Whether the recording has the state after the device's last event.
[[nodiscard]] bool has_recorded_end(const trace::Trace& trace, const trace::DeviceTrace& device);

// With free blocks between the recorded ones where there are gaps.
[[nodiscard]] EndState recorded_end(const trace::DeviceTrace& device);
// `history`: of the device.
[[nodiscard]] EndState replayed_end(const trace::Trace& trace, const trace::DeviceTrace& device,
                                    const explain::History& history);

}  // namespace vram::exports
