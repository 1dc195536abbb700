// vram doctor --stress: from the words of the command line to a pressure test of one GPU and its
// report. cmd_doctor.cpp has the command.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "cli/output.hpp"
#include "stress/report.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::cli {

// The options' texts, as they were given.
struct StressRequest {
  std::string length;  // empty: no test
  std::string device;
  std::string gpu;
  std::string leave;
  std::string seed;
  std::string compare;
  std::string fail_above = "10%";
  Output output;
  bool json = false;
  bool force = false;
};

// --stress and what belongs to it alone. --device, --gpu, --json and --output are the command's.
[[nodiscard]] std::vector<Option> stress_options(StressRequest& request);

// Whether the request has options of a test without requesting one.
[[nodiscard]] bool is_of_no_test(const StressRequest& request);

// Blocks until the test ends or a signal stops it. 0: passed; 1: errors, worse than before, or
// incomplete; 3: no GPU to test.
[[nodiscard]] Result<int> run_stress_request(const StressRequest& request, Console& console);

// StressArguments: the words of `vram doctor --stress`, understood and checked before anything is
// opened.
struct StressArguments {
  int64_t length_ns = 0;
  std::optional<uint32_t> device;
  std::optional<uint64_t> simulated_bytes;
  std::optional<uint64_t> leave_bytes;
  uint64_t seed = 0;
  double limit = 0;
  std::optional<stress::StressReport> before;
};

// Reads the report to compare with, too. kBadInput: the error names the option.
[[nodiscard]] Result<StressArguments> parse_stress_arguments(const StressRequest& request);

}  // namespace vram::cli
