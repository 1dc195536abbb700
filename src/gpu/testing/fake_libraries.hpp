// The fakes of the management libraries, for tests, and their controls: variables of the
// environment and scenario files, each for as long as the object lives.
#pragma once

#include "base/testing/paths.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

namespace vram::gpu::testing {

class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no other thread runs
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { unsetenv(name_); }  // NOLINT(concurrency-mt-unsafe)

 private:
  const char* name_;
};

class Scenario {
 public:
  explicit Scenario(const std::string& text, const char* variable = "FAKE_NVML_SCENARIO")
      : variable_(variable, path_) {
    change(text);
  }
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;
  ~Scenario() { (void)std::remove(path_.c_str()); }

  // Atomically, for concurrent readers.
  void change(const std::string& text) const {
    std::ofstream(path_ + ".new") << text;
    (void)std::rename((path_ + ".new").c_str(), path_.c_str());
  }

 private:
  std::string path_ = "/tmp/vram_scenario." + std::to_string(getpid());
  Environment variable_;
};

// Records the calls.
class Calls {
 public:
  explicit Calls(const char* variable = "FAKE_NVML_CALLS") : variable_(variable, path_) { clear(); }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  ~Calls() { (void)std::remove(path_.c_str()); }

  void clear() const { std::ofstream(path_).flush(); }
  // A line each: the function and the device's index.
  [[nodiscard]] std::string lines() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_ = "/tmp/vram_calls." + std::to_string(getpid());
  Environment variable_;
};

// The file of NVIDIA's management library in tests/fake_nvml.
inline std::string fake_nvml(const std::string& generation) {
  return build_path("tests/fake_nvml/") + generation + "/libnvidia-ml.so.1";
}

// AMD's management library in tests/fake_rocm_smi, as what gpu/rocm takes: the files to try. Its
// controls have variables of their own.
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
