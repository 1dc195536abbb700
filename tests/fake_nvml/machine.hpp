// The machine that the fake library shows, as a scenario file describes it (README.md has the
// format). A plain value; part of tests/fake_nvml.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vram::fake_nvml {

struct Process {
  std::string kind;  // "compute", "graphics", "mps"
  uint32_t pid = 0;
  uint64_t used_bytes = 0;
  uint32_t gpu_instance = UINT32_MAX;
  uint32_t compute_instance = UINT32_MAX;
  uint32_t busy_percent = UINT32_MAX;  // not sampled
};

struct Part {  // of MIG; its place in the list is its number
  uint32_t gpu_instance = 0;
  uint32_t compute_instance = 0;
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;
  std::string profile;
};

struct Xid {
  uint64_t number = 0;
  uint32_t gpu_instance = UINT32_MAX;
  uint32_t compute_instance = UINT32_MAX;
};

// What is to go wrong with a function: its answer, and how long it takes.
using Faults = std::map<std::string, uint64_t>;

struct Device {
  std::map<std::string, std::vector<uint64_t>> figures;  // not stated: not supported
  std::map<std::string, std::string> texts;
  std::vector<Process> processes;
  std::vector<Part> parts;
  std::vector<Xid> xids;
  Faults answers;
  Faults hangs_ms;
};

struct Machine {
  bool is_loaded = true;
  std::string version = "550.54.15";
  std::vector<Device> devices;
  Faults answers;
  Faults hangs_ms;
};

// Aborts with a word on stderr where a line is not understood: a test is wrong, not the code.
[[nodiscard]] Machine parse(const std::string& scenario);

// The scenario file's as it is now, or without one the machine of README.md.
[[nodiscard]] const std::string& standard_scenario();

}  // namespace vram::fake_nvml
