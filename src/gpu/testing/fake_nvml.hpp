// The fake of NVIDIA's management library (tests/fake_nvml), for tests, and its controls.
#pragma once

#include "base/testing/paths.hpp"
#include "gpu/testing/controls.hpp"

#include <string>

namespace vram::gpu::testing {

inline std::string fake_nvml(const std::string& generation) {
  return build_path("tests/fake_nvml/") + generation + "/libnvidia-ml.so.1";
}

}  // namespace vram::gpu::testing
