// The rest: what of a device's used memory is not the recorded allocator's, named as far as the
// recording observed it. From the figures of the driver (trace/figures.hpp) and the segment events.
// Pure.
//
//     used by the driver's count = allocator + driver + other processes + what this process holds
//                                  outside of the allocator + unnamed
#pragma once

#include "explain/moment/curve.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <optional>

namespace vram::explain {

// Nothing if the recording has no samples of the device.
[[nodiscard]] std::optional<Rest> find_rest(const trace::Trace& trace,
                                            const trace::DeviceTrace& device,
                                            const EventClock& clock, uint64_t initial_bytes);

// The device's memory without the driver's own, by its last figures; nothing if it has none.
[[nodiscard]] std::optional<uint64_t> usable_bytes(const trace::Trace& trace,
                                                   const trace::DeviceTrace& device);

}  // namespace vram::explain
