// The flight recorder that the environment requests (VRAM_FLIGHT).
#pragma once

#include <vram/record.h>

namespace vram::capi {

// VRAM_OK also if it requests none. It runs until the process ends.
[[nodiscard]] vram_status start_flight_as_told(vram_stacks stacks);

}  // namespace vram::capi
