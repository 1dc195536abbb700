// vram doctor --stress: from the words of the command line to a memory test of one GPU and its
// report. cmd_doctor.cpp has the command.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "cli/output.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::cli {

struct TestedGpu {
  std::optional<uint64_t> simulated_bytes;  // none: CUDA's
};

// The values of the options.
struct StressRequest {
  std::optional<int64_t> length_ns;  // none: no test
  std::optional<uint32_t> device;
  std::optional<TestedGpu> gpu;
  std::optional<uint64_t> leave_bytes;
  std::optional<uint64_t> seed;
  std::string compare;          // the path of an earlier report
  std::optional<double> limit;  // the share by which a value may become worse
  Output output;
  bool json = false;
  bool force = false;
};

// --stress and what requires it. --json and --output are the command's.
[[nodiscard]] std::vector<Option> stress_options(StressRequest& request);

// Whether the request has options of a test without requesting one.
[[nodiscard]] bool is_of_no_test(const StressRequest& request);

// Blocks until the test ends or a signal stops it. 0: passed; 1: errors, worse than before, or
// incomplete; 3: no GPU to test.
[[nodiscard]] Result<int> run_stress_request(const StressRequest& request, Console& console);

}  // namespace vram::cli
