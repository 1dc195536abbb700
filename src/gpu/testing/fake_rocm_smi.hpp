// The fake of AMD's management library (tests/fake_rocm_smi), for tests. Its controls have
// variables of their own.
#pragma once

#include "base/testing/paths.hpp"
#include "gpu/testing/controls.hpp"

#include <string>
#include <vector>

namespace vram::gpu::testing {

// As what gpu/rocm takes: the files to try.
inline std::vector<std::string> fake_rocm_smi(const std::string& version = "7") {
  return {build_path("tests/fake_rocm_smi/") + version + "/librocm_smi64.so"};
}

class RocmScenario : public Scenario {
 public:
  explicit RocmScenario(const std::string& text) : Scenario(text, "FAKE_ROCM_SCENARIO") {}
};

class RocmCalls : public Calls {
 public:
  RocmCalls() : Calls("FAKE_ROCM_CALLS") {}
};

}  // namespace vram::gpu::testing
