// A plan for several cards as the files that other tools read. Pure functions.
#pragma once

#include "base/result.hpp"
#include "show/plan/model_report.hpp"

#include <cstdint>
#include <string>

namespace vram::show {

enum class EmitFormat : uint8_t {
  kDeviceMap,   // JSON: the card of each module, for Transformers' device_map
  kAccelerate,  // YAML for accelerate launch --config_file
  kDeepSpeed,   // JSON for --deepspeed
  kFsdp,        // YAML for accelerate launch --config_file
};

// kBadInput: the split of this plan cannot be expressed in this format.
[[nodiscard]] Result<std::string> emit(EmitFormat format, const ModelReport& report);

}  // namespace vram::show
