// The fake of NVIDIA's management library (tests/fake_nvml), for tests, and its controls.
#pragma once

#include "gpu/testing/controls.hpp"

#include <string>

namespace vram::gpu::testing {

inline std::string fake_nvml(const std::string& generation) {
  return std::string(VRAM_FAKE_NVML "/") + generation + "/libnvidia-ml.so.1";
}

}  // namespace vram::gpu::testing
