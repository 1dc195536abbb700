// The number formats in which a device multiplies matrices fast. Pure functions; any thread.
#pragma once

#include "gpu/telemetry.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vram::gpu {

// The formats of the inputs of its tensor cores: "FP16", "BF16", "TF32", "FP8", "FP6", "FP4",
// "INT8", "INT4". Empty: it has no tensor cores. Unknown: AMD's and Intel's drivers do not
// report it; a compute capability newer than the table; or capability 7.5 with a name of which
// there are devices without tensor cores (GTX 1660, T1000).
[[nodiscard]] const std::optional<std::vector<std::string>>& tensor_core_formats(
    const DeviceIdentity& identity);

}  // namespace vram::gpu
